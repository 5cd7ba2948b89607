// HyperBand in the core: the trials of a bracket wait for each other at their rungs.
#include "tests/unit/core_story.h"

namespace rt {
namespace {

// One bracket of three trials with rungs 1 and 3 (and before it one of two trials that train to 3
// at once), on one slot after the other.
struct HyperBandSearch : Story {
  HyperBandSearch() {
    Create(R"(,"space":{"x":{"uniform":[0,1]}},"metric":"loss","mode":"min","num_samples":5,)"
           R"("resources":{"cpu":0.4},"scheduler":{"hyperband":{"max_t":3,"reduction_factor":3}})");
    SyncTwice();
  }
  Fence Live(uint32_t trial) { return FenceOf(trial, TrialOf(trial).runs.attempts.back().number); }
  ReportVerdict RowAt(uint32_t trial, double t, double loss) {
    RowBatch batch{Live(trial).attempt, 0, {RowOf(t, loss)}};
    return Do(input::Report{node, {batch}}).answer.verdicts.at(0);
  }
  Row RowOf(double t, double loss) {
    return {1, t, t, now, R"({"loss":)" + std::to_string(loss) + "}"};
  }
  // The trial comes to rung 1, saves there and ends.
  void Pause(uint32_t trial, double loss) {
    CHECK(RowAt(trial, 1, loss).suspend);
    input::CommitCheckpoint commit;
    commit.fence = Live(trial);
    commit.node = node;
    commit.manifest = "m" + std::to_string(trial);
    commit.row = RowOf(1, loss);
    REQUIRE(Do(commit).verdict.ok());
    running[Live(trial)].suspended = true;
    Exit(Live(trial), 0, 1);
    CHECK(StateOf(trial) == "PAUSED");
  }
};

}  // namespace

TEST_CASE("hyperband: the last trial of a bracket decides, and the best continues") {
  HyperBandSearch search;
  CHECK(search.TrialOf(1).bracket == 0);
  CHECK(search.TrialOf(2).bracket == 1);
  search.Pause(2, 0.1);
  search.Pause(3, 0.3);
  const ReportVerdict verdict = search.RowAt(4, 1, 0.2);
  CHECK(verdict.stop);
  CHECK(search.TrialOf(4).stop_reason == "stopped by HyperBand at rung 1: 1 of 3 continue");
  CHECK(search.StateOf(3) == "STOPPED");
  search.SyncTwice();
  CHECK(search.StateOf(2) == "RUNNING");
  const LaunchSpec launch = LaunchSpecFor(search.core.world, search.Live(2));
  CHECK(launch.checkpoint == "m2");
  CHECK(search.RowAt(2, 3, 0.1).stop);
  CHECK(search.TrialOf(2).stop_cause == StopCause::kMaxT);
}

TEST_CASE("hyperband: the last trial of a bracket continues without a pause when it is the best") {
  HyperBandSearch search;
  search.Pause(2, 0.2);
  search.Pause(3, 0.3);
  const ReportVerdict verdict = search.RowAt(4, 1, 0.1);
  CHECK(!verdict.stop);
  CHECK(!verdict.suspend);
  CHECK(search.StateOf(2) == "STOPPED");
}

TEST_CASE("hyperband: a trial that fails is waited for no longer") {
  HyperBandSearch search;
  search.Pause(2, 0.1);
  search.Pause(3, 0.3);
  search.Exit(search.Live(4), 1, 0);
  CHECK(search.StateOf(4) == "FAILED");
  CHECK(search.StateOf(3) == "STOPPED");
  CHECK(search.StateOf(2) == "RUNNING");
}

}  // namespace rt
