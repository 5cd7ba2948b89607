// The state of an experiment says what ended its search, also after trials of it were retried.
#include <limits>

#include "tests/unit/core_story.h"

namespace rt {
namespace {

// A story with experiment 1, which has `more` in its spec.
struct Search : Story {
  explicit Search(const std::string& more) {
    Create(more);
    SyncTwice();
  }
  const Experiment& Get() const { return core.world.state.experiments.at(ExperimentId{1}); }
  std::string State() const {
    return ExperimentView(core, {.now = now}, ExperimentId{1})->GetString("state");
  }
  std::string Reason() const {
    return ExperimentView(core, {.now = now}, ExperimentId{1})->GetString("reason");
  }
  void Flush() { Do(input::SinksFlushed{core.world.state.seq}); }
  Outcome Retry(uint32_t trial) {
    Outcome outcome = Do(input::RetryTrial{TrialId{{1}, trial}, false});
    SyncTwice();
    return outcome;
  }
  size_t LiveTrials() const {
    const ExperimentIndex& index = core.world.index.experiments.at(ExperimentId{1});
    return index.live.size() + index.pending.size();
  }
};

constexpr char kMany[] = R"(,"num_samples":50,"max_concurrent":2)";

}  // namespace

TEST_CASE("a search that a person stopped is STOPPED, also after a trial of it was retried") {
  Search search(kMany);
  search.Do(input::StopExperiment{ExperimentId{1}, "by hand"});
  search.Exit(search.FenceOf(0), 143, 0);
  search.Exit(search.FenceOf(1), 143, 0);
  search.Flush();
  REQUIRE(search.State() == "STOPPED");
  REQUIRE(search.Retry(1).verdict.ok());
  CHECK(search.State() == "RUNNING");
  CHECK(search.Reason() == "runs retried trials only; its search is over: by hand");
  CHECK(search.LiveTrials() == 1);  // Neither the other trial nor a new one.
  search.Do(input::Tick{});
  CHECK(search.Get().trials.size() == 2);
  search.Exit(search.FenceOf(1, 2), 0, 0);
  CHECK(search.StateOf(1) == "COMPLETED");
  CHECK(search.StateOf(0) == "STOPPED");
  search.Flush();
  CHECK(search.State() == "STOPPED");
  CHECK(search.Reason() == "by hand");
  REQUIRE(search.Retry(0).verdict.ok());  // Once more: it still says what ended the search.
  search.Exit(search.FenceOf(0, 2), 3, 0);
  search.Flush();
  CHECK(search.State() == "STOPPED");
}

TEST_CASE("a search whose time ran out is STOPPED, and a trial of it can be retried") {
  Search search(kMany + std::string(R"(,"time_budget":60)"));
  search.now += 61'000;
  search.Do(input::Tick{});
  search.Exit(search.FenceOf(0), 143, 0);
  search.Exit(search.FenceOf(1), 143, 0);
  search.Flush();
  CHECK(search.State() == "STOPPED");
  CHECK(search.Reason() == "the time budget ran out");
  REQUIRE(search.Retry(0).verdict.ok());
  search.now += 3'600'000;  // The budget was the search's.
  search.SyncTwice();
  search.Do(input::Tick{});
  CHECK(search.State() == "RUNNING");
  CHECK(search.LiveTrials() == 1);
}

TEST_CASE("a search that the breaker or fail_fast ended is FAILED, also after a retry") {
  for (const std::string more : {R"(,"fail_fast":true)", R"(,"breaker":{"trials":1})"}) {
    Search search(kMany + more);
    search.Exit(search.FenceOf(0), 1, 0);
    search.Exit(search.FenceOf(1), 143, 0);
    search.Flush();
    REQUIRE(search.State() == "FAILED");
    const std::string why = search.Reason();
    REQUIRE(search.Retry(0).verdict.ok());
    REQUIRE(search.Retry(1).verdict.ok());
    search.Exit(search.FenceOf(0, 2), 1, 0);  // It ends nothing else any more.
    CHECK(search.LiveTrials() == 1);
    search.Exit(search.FenceOf(1, 2), 0, 0);
    search.Flush();
    CHECK(search.State() == "FAILED");
    CHECK(search.Reason() == why);
  }
}

TEST_CASE("at the algorithm's end the trials decide, those that were retried included") {
  Search search(R"(,"num_samples":2)");
  search.Exit(search.FenceOf(0), 1, 0);
  search.Exit(search.FenceOf(1), 1, 0);
  search.Flush();
  REQUIRE(search.State() == "FAILED");
  REQUIRE(search.Retry(1).verdict.ok());
  search.Exit(search.FenceOf(1, 2), 0, 0);
  search.Flush();
  CHECK(search.State() == "COMPLETED");
  CHECK(search.Reason() == "");
}

TEST_CASE("a person who stops the retries of a completed search leaves it COMPLETED") {
  Search search(R"(,"num_samples":2)");
  search.Exit(search.FenceOf(0), 1, 0);
  search.Exit(search.FenceOf(1), 0, 0);
  search.Flush();
  REQUIRE(search.State() == "COMPLETED");
  REQUIRE(search.Retry(0).verdict.ok());
  search.Do(input::StopExperiment{ExperimentId{1}, "by hand"});
  CHECK(search.State() == "STOPPING");
  search.Exit(search.FenceOf(0, 2), 143, 0);
  search.Flush();
  CHECK(search.State() == "COMPLETED");
}

TEST_CASE("while retried trials run, the search itself is neither resumed nor extended") {
  Search search(kMany);
  search.Do(input::StopExperiment{ExperimentId{1}, "by hand"});
  search.Exit(search.FenceOf(0), 143, 0);
  search.Exit(search.FenceOf(1), 143, 0);
  search.Flush();
  REQUIRE(search.Retry(0).verdict.ok());
  for (const Input& input : std::vector<Input>{
           input::ResumeExperiment{.experiment = ExperimentId{1}},
           input::ExtendExperiment{.experiment = ExperimentId{1}, .add_samples = 1}}) {
    const absl::Status refused = search.Do(input).verdict;
    CHECK(MessageOf(refused) ==
          "the search of experiment 1 has ended, and only retried trials run");
    CHECK(HintOf(refused) ==
          "wait until they have ended, or end them with rt exp stop 1");
  }
  // A pause holds the retried trial, and the clock of the search stands still throughout.
  CHECK(search.Do(input::PauseExperiment{ExperimentId{1}, "for now"}).verdict.ok());
  CHECK(search.Do(input::ResumeExperiment{.experiment = ExperimentId{1}}).verdict.ok());
  search.SyncTwice();
  search.Exit(search.FenceOf(0, 2), 0, 0);
  search.Flush();
  REQUIRE(search.State() == "STOPPED");
  // Resumed, the search goes on by itself: new trials, and an end of its own.
  CHECK(search.Do(input::ResumeExperiment{.experiment = ExperimentId{1}}).verdict.ok());
  search.SyncTwice();
  CHECK(search.LiveTrials() == 2);
  CHECK_FALSE(search.Get().search.over);
}

TEST_CASE("an experiment is not extended beyond what a spec may ask for") {
  Search search(R"(,"num_samples":50,"max_concurrent":2,"time_budget":3600)");
  auto extend = [&](int64_t samples, Millis time) {
    return search.Do(input::ExtendExperiment{.experiment = ExperimentId{1},
                                             .add_samples = samples,
                                             .add_time = time}).verdict;
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (int64_t more : {kMost, kMost - 50, limits::kSamplesMax - 49})
    CHECK(MessageOf(extend(more, 0)).find("at most 1000000000 samples") != std::string::npos);
  for (Millis more : {Millis{kMost}, limits::kTimeBudgetMax - 3'599'999})
    CHECK(MessageOf(extend(0, more)).find("at most 1000000000 s") != std::string::npos);
  CHECK_FALSE(extend(kMost, kMost).ok());
  const ExperimentSpec& spec = search.core.world.index.experiments.at(ExperimentId{1}).spec;
  CHECK(spec.num_samples == 50);
  CHECK(extend(limits::kSamplesMax - 50, limits::kTimeBudgetMax - 3'600'000).ok());
  CHECK(spec.num_samples == limits::kSamplesMax);
  CHECK(spec.time_budget == limits::kTimeBudgetMax);
}

TEST_CASE("an experiment that release 0.1.0 ended by its budget stays COMPLETED after a retry") {
  Search search(kMany + std::string(R"(,"time_budget":60)"));
  search.now += 61'000;
  search.Do(input::Tick{});
  auto emit = [&](Event event) {
    search.Take({search.core.world.state.seq + 1, search.now, std::move(event)});
  };
  for (uint32_t number : {0u, 1u}) {
    emit(event::AttemptEnded{.attempt = search.FenceOf(number).attempt,
                             .outcome = AttemptOutcome::kStopped});
    emit(event::TrialEnded{.trial = {{1}, number}, .end = TrialEnd::kStopped});
    search.running.erase(search.FenceOf(number));
  }
  emit(event::ExperimentFinishing{ExperimentId{1}, ExperimentEnd::kCompleted, "the time is over"});
  search.Flush();
  REQUIRE(search.State() == "COMPLETED");
  REQUIRE(search.Retry(0).verdict.ok());
  search.Exit(search.FenceOf(0, 2), 0, 0);
  search.Flush();
  CHECK(search.State() == "COMPLETED");
}

TEST_CASE("the plateau rule does not count a repeated step, however rows were batched") {
  const std::string without = "{}", with = R"({"loss":1})";
  for (const bool together : {true, false}) {
    INFO(together);
    Search search(R"(,"num_samples":1,"max_failures":1,"metric":"loss","mode":"min",)"
                  R"("stop":{"experiment_plateau":{"top":2}})");
    const Fence first = search.FenceOf(0), second = search.FenceOf(0, 2);
    RowBatch rows{first.attempt, 0, {{1, 1, 1, search.now, with}}};
    const Row next{2, 2, 1, search.now, without};
    if (together) rows.rows.push_back(next);
    search.Do(input::Report{search.node, {rows}});
    if (!together) search.Do(input::Report{search.node, {RowBatch{first.attempt, 0, {next}}}});
    search.Exit(first, 1, 2);
    REQUIRE(FindLive(search.core.world.state, second.attempt) != nullptr);
    for (const uint64_t step : {1u, 2u}) {
      search.Report(second, step, with);
      CHECK(search.Get().best_values.values == std::vector<double>{1});
      CHECK(search.Reason() == "");
    }
    search.Report(second, 3, with);
    CHECK(search.Reason() == "the 2 best values of loss are a plateau");
  }
}

}  // namespace rt
