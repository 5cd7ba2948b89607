// Promotion ASHA in the core: trials are paused at rungs, and resumed when they are among the best.
#include "head/view/view.h"
#include "tests/unit/core_story.h"

namespace rt {
namespace {

constexpr char kPromotion[] = R"(,"space":{"x":{"uniform":[0,1]}},"metric":"loss","mode":"min",)"
                              R"("scheduler":{"asha_promotion":{"max_t":9,"reduction_factor":3}})";

std::string LossRow(double loss) { return R"({"loss":)" + std::to_string(loss) + "}"; }

// A search with one slot: trials run one after the other.
struct PromotionSearch : Story {
  explicit PromotionSearch(const std::string& more) {
    Create(std::string(kPromotion) + R"(,"resources":{"cpu":2})" + more);
    SyncTwice();
  }
  uint32_t Attempt(uint32_t trial) { return TrialOf(trial).runs.attempts.back().number; }
  Fence Live(uint32_t trial) { return FenceOf(trial, Attempt(trial)); }
  ReportVerdict RowAt(uint32_t trial, uint64_t seq, double t, double loss) {
    RowBatch batch{Live(trial).attempt, 0, {{seq, t, t, now, LossRow(loss)}}};
    return Do(input::Report{node, {batch}}).answer.verdicts.at(0);
  }
  void Save(uint32_t trial, uint64_t seq, double t, double loss) {
    input::CommitCheckpoint commit;
    commit.fence = Live(trial);
    commit.node = node;
    commit.manifest = "m" + std::to_string(trial) + "-" + std::to_string(t);
    commit.row = {seq, t, t, now, LossRow(loss)};
    REQUIRE(Do(commit).verdict.ok());
  }
  void End(uint32_t trial, uint64_t last_seq) {
    running[Live(trial)].suspended = true;
    Exit(Live(trial), 0, last_seq);
  }
  // The newest attempt of the trial comes to a rung, saves there and ends.
  void Pause(uint32_t trial, double t, double loss) {
    const ReportVerdict verdict = RowAt(trial, 1, t, loss);
    CHECK(verdict.suspend);
    CHECK(!verdict.stop);
    Save(trial, 1, t, loss);
    End(trial, 1);
  }
  const Experiment& experiment() { return core.world.state.experiments.at({1}); }
};

}  // namespace

TEST_CASE("asha promotion: a trial is paused until it is in the top of its rung") {
  PromotionSearch search(R"(,"num_samples":4)");
  search.Pause(0, 1, 0.3);
  CHECK(search.StateOf(0) == "PAUSED");
  search.Pause(1, 1, 0.1);
  search.RowAt(2, 1, 1, 0.2);  // The third: one of three places is free, for trial 1.
  CHECK(search.TrialOf(1).pause_cause == PauseCause::kNone);
  CHECK(search.TrialOf(2).pause_cause == PauseCause::kScheduler);
  search.Save(2, 1, 1, 0.2);
  search.End(2, 1);
  CHECK(search.StateOf(1) == "RUNNING");  // Before the new trial 3.
  // Who is at the rung, the best first.
  const Json rungs = *ExperimentView(search.core, {.now = search.now}, {1})->Find("rungs");
  REQUIRE(rungs.array().size() == 1);
  CHECK(rungs.array()[0].Find("trials")->Dump() ==
        R"([{"trial_id":"1/1","value":0.1},{"trial_id":"1/2","value":0.2},)"
        R"({"trial_id":"1/0","value":0.3}])");
  CHECK(search.StateOf(3) == "PENDING");
  CHECK(search.TrialOf(1).runs.attempts.back().checkpoint == 1);
}

TEST_CASE("asha promotion: a trial in the top of its rung continues without a pause") {
  PromotionSearch search(R"(,"num_samples":4)");
  search.Pause(0, 1, 0.3);
  search.Pause(1, 1, 0.2);
  CHECK(!search.RowAt(2, 1, 1, 0.1).suspend);
  CHECK(search.StateOf(2) == "RUNNING");
  CHECK(search.StateOf(0) == "PAUSED");
}

TEST_CASE("asha promotion: a rung decides about a trial once, also when it runs there again") {
  PromotionSearch search(R"(,"num_samples":4)");
  search.Pause(0, 1, 0.3);
  search.Pause(1, 1, 0.2);
  search.RowAt(2, 1, 1, 0.1);
  search.Exit(search.Live(2), 1, 1, false);  // Lost: nobody saw its end. It begins again.
  REQUIRE(search.StateOf(2) == "RUNNING");
  CHECK(!search.RowAt(2, 1, 1, 0.9).suspend);
  CHECK(search.experiment().rungs.at(0).entries.size() == 3);
  CHECK(search.StateOf(2) == "RUNNING");
}

TEST_CASE("asha promotion: paused trials hold no place of max_concurrent") {
  PromotionSearch search(R"(,"num_samples":6,"max_concurrent":1)");
  search.Pause(0, 1, 0.3);
  search.Pause(1, 1, 0.2);
  CHECK(search.StateOf(2) == "RUNNING");
}

TEST_CASE("asha promotion: when nothing else can run, the best is trained to its end") {
  PromotionSearch search(R"(,"num_samples":2)");
  search.Pause(0, 1, 0.3);
  search.Pause(1, 1, 0.1);
  REQUIRE(search.StateOf(1) == "RUNNING");
  CHECK(search.StateOf(0) == "PAUSED");
  search.Pause(1, 3, 0.1);
  REQUIRE(search.StateOf(1) == "RUNNING");
  search.RowAt(1, 1, 9, 0.05);  // max_t
  search.Exit(search.Live(1), 0, 1);
  CHECK(search.StateOf(1) == "COMPLETED");
  CHECK(search.StateOf(0) == "STOPPED");
  CHECK(search.TrialOf(0).reason == "stopped by ASHA at rung 1: it was not promoted");
  CHECK(search.experiment().finishing);
}

TEST_CASE("asha promotion: trials that do not save fall back to the stopping variant") {
  PromotionSearch search(R"(,"num_samples":3)");
  search.RowAt(0, 1, 1, 0.2);
  search.End(0, 1);                         // It was asked to save, and did not.
  REQUIRE(search.StateOf(0) == "RUNNING");  // The first of a rung: it begins again.
  CHECK(search.experiment().unsaved_pauses == 1);
  search.RowAt(0, 1, 1, 0.2);
  search.RowAt(0, 2, 9, 0.2);
  search.Exit(search.Live(0), 0, 2);
  CHECK(search.StateOf(0) == "COMPLETED");
  const ReportVerdict worse = search.RowAt(1, 1, 1, 0.9);
  CHECK(worse.stop);
  CHECK(worse.reason == "stopped by ASHA at rung 1: it has no checkpoint to be resumed from");
}

TEST_CASE("asha promotion: a trial that saved is not decided by the fallback") {
  PromotionSearch search(R"(,"num_samples":3)");
  search.RowAt(0, 1, 1, 0.2);
  search.End(0, 1);
  search.Save(0, 1, 0.5, 0.2);
  CHECK(search.RowAt(0, 2, 3, 0.3).suspend);
}

TEST_CASE("asha promotion: after a restart of the head the paused trials are known again") {
  PromotionSearch search(R"(,"num_samples":4)");
  search.Pause(0, 1, 0.3);
  search.Pause(1, 1, 0.1);
  Reindex(search.core.world);
  Reindex(search.shadow);
  search.RowAt(2, 1, 1, 0.2);
  CHECK(search.TrialOf(1).pause_cause == PauseCause::kNone);
}

}  // namespace rt
