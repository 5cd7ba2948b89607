#include <catch2/catch.hpp>

#include "cli/render/live.h"
#include "cli/render/spans.h"
#include "common/base/strings.h"
#include "tests/unit/cli_text.h"

using namespace rt;

namespace {

LiveFacts Facts(const std::string& more = "") {
  LiveFacts facts;
  facts.experiment = Parsed(
      R"({"id":3,"name":"sweep","state":"RUNNING","metric":"loss","mode":"min","elapsed_s":10.0,
          "trials_total":40,"trials_by_state":{"PENDING":20,"RUNNING":10,"COMPLETED":9,"FAILED":1},
          "best":{"trial_id":"3/4","value":0.25,"step":7,"params":{"lr":0.1,"opt":{"name":"adam"}}},
          "last_error":{"trial_id":"3/1","class":"ValueError","message":"a\nValueError: bad"},
          "rungs":[{"bracket":0,"milestone":1,"recorded":9,"stopped":6}])" + more + "}");
  facts.status = Parsed(R"({"cluster":{"name":"lab"},"experiments":[],"jobs":[],"pending":[
      {"id":"3/20","reason":"waits for 1 cpu"},{"id":"3/21","reason":"waits for 1 cpu"},
      {"id":"4/1","reason":"another one"}]})");
  facts.nodes = Json::MakeArray();
  for (int i = 1; i <= 30; ++i)
    facts.nodes.Append(Parsed(R"({"name":"worker-)" + std::to_string(i) +
                              R"(","state":"READY","resources_total":{"cpu":4,"gpu":2},
                              "resources_used":{"cpu":3,"gpu":0.5}})"));
  return facts;
}

std::string Shown(const FrameSize& size, const std::string& more = "") {
  return Join(RenderExperimentFrame(Facts(more), size), "\n");
}
}  // namespace

TEST_CASE("live: a frame says how far, how good, where, why not and what went wrong") {
  std::string text = Shown({.columns = 100, .rows = 40});
  CHECK(Has(text, "experiment 3 sweep  RUNNING  10s"));
  CHECK(Has(text, "] 25%  10/40 trials  about 30s left"));
  CHECK(Has(text, "trials   20 PENDING  10 RUNNING  9 COMPLETED  1 FAILED"));
  CHECK(Has(text, "best     loss 0.25  trial 3/4  step 7\n         lr=0.1 opt/name=adam\n"));
  CHECK(Has(text, "rungs    step 1: 6 of 9 stopped"));
  CHECK(Has(text, "READY     [======>   ]  cpu 3/4  gpu 0.5/2"));
  CHECK(Has(text, "waits    3/20 and 1 more: waits for 1 cpu"));
  CHECK(Has(text, "error    trial 3/1: ValueError: bad"));
  CHECK_FALSE(Has(text, "another one"));
  CHECK_FALSE(Has(text, "\x1b"));
}

TEST_CASE("live: a frame fits every screen, and its last lines outlive the nodes") {
  for (size_t rows = 2; rows < 50; ++rows)
    for (size_t columns : {1, 2, 10, 40, 80}) {
      auto lines = RenderExperimentFrame(Facts(), {.columns = columns, .rows = rows});
      CHECK(lines.size() <= rows - 1);
      for (const std::string& line : lines)
        CHECK(VisibleWidth(line) < std::max<size_t>(2, columns));
    }
  std::string text = Shown({.columns = 80, .rows = 12});
  CHECK(Has(text, "more: cpu "));
  CHECK(Has(text, "error "));
  CHECK(Has(Shown({.columns = 80, .rows = 5}), "error "));
}

TEST_CASE("live: a time budget bounds what is left, and without a total there is no share") {
  CHECK(Has(Shown({}, R"(,"spec":{"time_budget":"20s"})"), "] 50%  10/40 trials  about 10s left"));
  LiveFacts facts = Facts();
  facts.experiment.Set("trials_total", Json());
  std::string text = Join(RenderExperimentFrame(facts, {}), "\n");
  CHECK(Has(text, "\n         10 trials\n"));
}

TEST_CASE("live: trials that never started are not done, and what was stopped is not green") {
  LiveFacts facts = Facts();
  facts.experiment.Set("state", "STOPPED");
  facts.experiment.Set("trials_total", 20);
  facts.experiment.Set("trials_by_state", Parsed(R"({"COMPLETED":5,"STOPPED":15})"));
  facts.experiment.Set("trials_never_started", 15);
  const std::string text =
      Join(RenderExperimentFrame(facts, {.columns = 100, .color = true}), "\n");
  CHECK(Has(text, "25%  5/20 trials"));
  CHECK(Has(text, "(15 never started)"));
  CHECK(Has(text, "\x1b[33m[==="));
  CHECK(Has(ProgressLine(facts.experiment), "5/20 trials"));
}

TEST_CASE("live: what is cut off is counted, and so are other reasons for waiting") {
  LiveFacts facts = Facts();
  Json waiting = Json::MakeArray();
  for (int i = 0; i < 5; ++i)
    waiting.Append(Json::MakeObject({{"id", "3/2" + std::to_string(i)},
                                     {"reason", "reason " + std::to_string(i)},
                                     {"count", 1}}));
  facts.status.Set("waiting", std::move(waiting));
  std::string text = Join(RenderExperimentFrame(facts, {.columns = 80, .rows = 40}), "\n");
  CHECK(Has(text, "and 3 other reasons: rt status"));
  text = Join(RenderExperimentFrame(facts, {.columns = 80, .rows = 8}), "\n");
  CHECK(Has(text, " more lines"));
}

TEST_CASE("live: the cluster's screen has what runs first, and says how it is ended") {
  LiveFacts facts = Facts();
  facts.status.Set("experiments", Parsed(R"([
      {"id":1,"name":"runs","state":"RUNNING","trials_by_state":{"RUNNING":2}},
      {"id":2,"name":"over","state":"COMPLETED","trials_by_state":{"COMPLETED":2}},
      {"id":3,"name":"waits","state":"PENDING","trials_by_state":{"PENDING":2}}])"));
  facts.nodes = Json::MakeArray();
  const std::string text =
      Join(RenderClusterFrame(facts, {.columns = 80, .rows = 40, .quits = true}), "\n");
  CHECK(text.find("runs") < text.find("experiment 3"));
  CHECK_FALSE(Has(text, "over"));
  CHECK(text.ends_with("q quits"));
  for (size_t rows = 2; rows < 20; ++rows)
    CHECK(RenderClusterFrame(facts, {.columns = 80, .rows = rows, .quits = true}).size() < rows);
}

TEST_CASE("live: control characters of names and errors drive no terminal") {
  LiveFacts facts = Facts();
  facts.experiment.Set("name", "\x1b[2J");
  for (bool color : {false, true}) {
    std::string text = Join(RenderExperimentFrame(facts, {.color = color}), "\n");
    CHECK_FALSE(Has(text, "\x1b[2J"));
    CHECK(Has(text, "\x1b[32m") == color);
  }
}

TEST_CASE("live: a frame is painted over the one before, wrapped lines counted as rows") {
  std::vector<std::string> lines = {std::string(79, 'x'), "\x1b[1mab\x1b[0m"};
  CHECK(WidthsOf(lines) == std::vector<size_t>{79, 2});
  CHECK(RowsAt({79, 2, 0}, 80) == 3);
  CHECK(RowsAt({79, 2, 0}, 40) == 4);
  CHECK(PaintText({"a"}, 0) == "\r\x1b[?7la\x1b[K\n\x1b[J\x1b[?7h");
  CHECK(PaintText({"a"}, 2).starts_with("\x1b[2A\r"));
}

TEST_CASE("live: the line for pipes has no figure that changes by itself") {
  LiveFacts facts = Facts();
  std::string line = ProgressLine(facts.experiment);
  CHECK(line ==
        "experiment 3 RUNNING  10/40 trials, 10 RUNNING, 1 FAILED; "
        "best so far loss 0.25 (trial 3/4, step 7)");
  facts.experiment.Set("elapsed_s", 11.0);
  CHECK(ProgressLine(facts.experiment) == line);
}

TEST_CASE("spans: durations in two units") {
  CHECK(DurationText(8.4) == "8s");
  CHECK(DurationText(185) == "3m 05s");
  CHECK(DurationText(7'800) == "2h 10m");
  CHECK(DurationText(360'000) == "4d 04h");
}
