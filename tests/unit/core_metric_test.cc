// The strict metric rule, and what a person is told of names that no row has.
#include "tests/unit/core_story.h"

namespace rt {
namespace {

constexpr char kFive[] =
    R"(,"num_samples":9,"max_concurrent":2,"metric":"loss","mode":"min","breaker":{"trials":3})";

std::vector<std::string> WarningsOf(const Story& story) {
  const absl::StatusOr<Json> view = ExperimentView(story.core, {.now = story.now}, ExperimentId{1});
  REQUIRE(view.ok());
  std::vector<std::string> warnings;
  for (const Json& warning : view->Find("warnings")->array())
    warnings.push_back(warning.AsString());
  return warnings;
}

std::string StateOfExperiment(const Story& story) {
  return ExperimentView(story.core, {.now = story.now}, ExperimentId{1})->GetString("state");
}

// The reason for which a trial fails that reports `metrics` first; empty: it goes on.
std::string FailureBy(const std::string& metrics, const std::string& more = "") {
  Story story;
  story.Create(R"(,"metric":"loss","mode":"min","max_failures":3)" + more);
  story.SyncTwice();
  const ReportVerdict verdict = story.Report(story.FenceOf(0), 1, metrics);
  if (!verdict.stop) return "";
  CHECK(verdict.stop_seq == 1);
  story.Exit(story.FenceOf(0), 143, 1);
  CHECK(story.StateOf(0) == "FAILED");
  CHECK(story.TrialOf(0).error == ErrorInfo{"MetricError", story.TrialOf(0).reason, ""});
  CHECK(story.TrialOf(0).runs.attempts.size() == 1);  // It is not tried again.
  return story.TrialOf(0).reason;
}

}  // namespace

TEST_CASE("metric: the first row without it fails the trial, and names what was reported") {
  CHECK(FailureBy(R"({"lss":0.5,"acc":0.9})") ==
        "a report does not have the metric 'loss'; reported: lss, acc; did you mean 'lss'?");
  CHECK(FailureBy(R"({"eval":{"loss":1},"epoch":1})") ==
        "a report does not have the metric 'loss'; reported: eval/loss, epoch; "
        "did you mean 'eval/loss'?");
  CHECK(FailureBy(R"x({"loss":"tensor(0.5)"})x") ==
        "a row's metric 'loss' is not a number: \"tensor(0.5)\"");
  CHECK(FailureBy(R"({"loss":{"train":1}})") ==
        "a report does not have the metric 'loss'; reported: loss/train; "
        "did you mean 'loss/train'?");
  CHECK(FailureBy(R"({"a\u001b[31m":1})") ==
        "a report does not have the metric 'loss'; reported: a\\x1b[31m");
}

TEST_CASE("metric: rows that have it, or report nothing of their own, are accepted") {
  CHECK(FailureBy(R"({"loss":0.5})") == "");
  CHECK(FailureBy(R"({"loss":"NaN"})") == "");
  CHECK(FailureBy(R"({"loss":null,"epoch":1})") == "");
  CHECK(FailureBy("{}") == "");
  CHECK(FailureBy(R"({"training_iteration":3,"done":false,"hostname":"h","time_this_iter_s":1,
                      "time_total_s":4,"config":{"lr":1}})") == "");
  CHECK(FailureBy(R"({"lss":0.5})", R"(,"strict_metric":false)") == "");
}

TEST_CASE("metric: a counter that rt fills in is one that every row has") {
  Story story;
  story.Create(R"(,"metric":"training_iteration","mode":"max")");
  story.SyncTwice();
  CHECK_FALSE(story.Report(story.FenceOf(0), 1, R"({"acc":0.5})").stop);
}

TEST_CASE("metric: a later row without it fails the trial too, and rows after it are not kept") {
  Story story;
  story.Create(R"(,"metric":"loss","mode":"min")");
  story.SyncTwice();
  CHECK_FALSE(story.Report(story.FenceOf(0), 1, R"({"loss":0.5})").stop);
  CHECK(story.Report(story.FenceOf(0), 2, R"({"acc":0.5})").stop);
  story.Report(story.FenceOf(0), 3, R"({"loss":0.1})");
  CHECK(story.TrialOf(0).reports == 2);
  CHECK(story.TrialOf(0).best == 0.5);
  story.Exit(story.FenceOf(0), 0, 3);  // It had returned already.
  CHECK(story.StateOf(0) == "FAILED");
}

TEST_CASE("metric: lines that a report_regex matches may have it in turn") {
  Story story;
  story.Create(R"x(,"metric":"loss","report_regex":"(\\w+)=(\\d+)")x");
  story.SyncTwice();
  for (uint64_t seq = 1; seq < 20; ++seq)
    CHECK_FALSE(story.Report(story.FenceOf(0), seq, R"({"lss":1})").stop);
  CHECK(story.Report(story.FenceOf(0), 20, R"({"lss":1})").stop);
  Story other;
  other.Create(R"x(,"metric":"loss","report_regex":"(\\w+)=(\\d+)")x");
  other.SyncTwice();
  CHECK_FALSE(other.Report(other.FenceOf(0), 1, R"({"loss":1})").stop);
  for (uint64_t seq = 2; seq < 30; ++seq)
    CHECK_FALSE(other.Report(other.FenceOf(0), seq, R"({"acc":1})").stop);
}

TEST_CASE("metric: when the first trials all leave it out, the breaker ends the search") {
  Story story;
  story.Create(kFive);
  story.SyncTwice();
  for (uint32_t number : {0u, 1u, 2u}) {
    story.now += 10 * 60'000;  // Each row comes late: a long epoch is no reason to go on.
    CHECK(story.Report(story.FenceOf(number), 1, R"({"lss":1})").stop);
    story.Exit(story.FenceOf(number), number == 1 ? 0 : 143, 1);
  }
  CHECK(StateOfExperiment(story) == "STOPPING");
  story.Exit(story.FenceOf(3), 143, 0);
  story.Do(input::SinksFlushed{story.core.world.state.seq});
  CHECK(StateOfExperiment(story) == "FAILED");
  CHECK(story.core.world.state.experiments.at(ExperimentId{1}).reason ==
        "breaker: its first 3 trials all failed with the same error in what they report: a report "
        "does not have the metric 'loss'; reported: lss; did you mean 'lss'?");
}

TEST_CASE("metric: a spec that release 0.1.0 journalled accepts every row") {
  Story story;
  story.core.world.state.next_experiment = 1;
  const Record record{story.core.world.state.seq + 1, story.now,
                      event::ExperimentCreated{.experiment = ExperimentId{1}, .owner = "ann",
                          .spec = R"({"experiment":"e","command":["x"],"metric":"loss"})",
                          .seed = 1, .results_dir = "/r/e"}};
  story.Take(record);
  CHECK_FALSE(story.core.world.index.experiments.at(ExperimentId{1}).spec.strict_metric);
}

TEST_CASE("warnings: a stop key and a time attribute that no row has are named") {
  Story story;
  story.Create(R"(,"metric":"loss","mode":"min","stop":{"accuracy":0.9,"training_iteration":99},
      "scheduler":{"asha":{"max_t":9,"time_attr":"epochs"}})");
  story.SyncTwice();
  for (uint64_t seq = 1; seq < 10; ++seq)
    story.Report(story.FenceOf(0), seq, R"({"loss":1,"acuracy":0.5,"epoch":1})");
  CHECK(WarningsOf(story).empty());  // Some values come late in a trial.
  story.Report(story.FenceOf(0), 10, R"({"loss":1,"acuracy":0.5,"epoch":1})");
  CHECK(WarningsOf(story) ==
        std::vector<std::string>{
            "stop: no row has 'accuracy', so that this rule never applies; reported: loss, "
            "acuracy, epoch; did you mean 'acuracy'?",
            "scheduler: no row has the time_attr 'epochs', so that asha decides nothing; "
            "reported: loss, acuracy, epoch; did you mean 'epoch'?"});
  story.Report(story.FenceOf(0), 11, R"({"loss":1,"accuracy":0.5,"epochs":0.5})");
  story.Report(story.FenceOf(0), 12, R"({"loss":1})");
  CHECK(WarningsOf(story).empty());
}

TEST_CASE("warnings: known results from which the search learns nothing are said") {
  Story story;
  story.Create(R"(,"metric":"loss","mode":"min","space":{"x":{"uniform":[0,1]}},
      "search":{"tpe":{"evaluated":[{"config":{"x":0.5},"value":1},
                                    {"config":{"x":5},"value":0}]}})");
  CHECK(WarningsOf(story) ==
        std::vector<std::string>{
            "search/tpe/evaluated: 1 of 2 results lie outside the space or lack a parameter, and "
            "nothing is learned from them"});
}

TEST_CASE("warnings: a search whose trials report nothing is said") {
  Story story;
  story.Create(R"(,"metric":"loss","mode":"min")");
  story.SyncTwice();
  CHECK(WarningsOf(story).empty());
  story.Exit(story.FenceOf(0), 0, 0);
  CHECK(story.StateOf(0) == "COMPLETED");
  CHECK(WarningsOf(story) ==
        std::vector<std::string>{
            "no trial has reported anything, so no trials can be compared by 'loss'; report "
            "metrics with rt.tune.report, `rt report` or RT_REPORT lines"});
  Story silent;
  silent.Create("");
  silent.SyncTwice();
  silent.Exit(silent.FenceOf(0), 0, 0);
  CHECK(WarningsOf(silent).empty());  // Nobody reads what it would report.
}

TEST_CASE("warnings: a search whose constraints no row keeps says so") {
  const auto warnings = [](const char* constraints) {
    Story story;
    story.Create(std::string(R"(,"metric":"loss","mode":"min","constraints":)") + constraints);
    story.SyncTwice();
    story.Report(story.FenceOf(0), 1, R"({"loss":1,"size":7})");
    story.Exit(story.FenceOf(0), 0, 1);
    return WarningsOf(story);
  };
  CHECK(warnings(R"({"size":{"<=":9}})").empty());
  CHECK(warnings(R"({"size":{"<=":5},"loss":{">=":0.5}})") ==
        std::vector<std::string>{"constraints: no row keeps them, so that no trial is the best: "
                                 "size <= 5, loss >= 0.5"});
  CHECK(warnings(R"({"sise":{"<=":5}})") ==
        std::vector<std::string>{
            "constraints: no row has 'sise'; reported: loss, size; did you mean 'size'?"});
}

TEST_CASE("warnings: a metric that is not strict, and that no row has, is named") {
  Story story;
  story.Create(R"(,"metric":"loss","mode":"min","strict_metric":false)");
  story.SyncTwice();
  story.Report(story.FenceOf(0), 1, R"({"lss":1})");
  story.Exit(story.FenceOf(0), 0, 1);
  CHECK(WarningsOf(story) ==
        std::vector<std::string>{"metric: no row has a number for 'loss'; reported: lss; "
                                 "did you mean 'lss'?"});
}

}  // namespace rt
