// The median stopping rule in the core: the head keeps the running means of all trials, and a
// restart has the same.
#include "tests/unit/core_story.h"

namespace rt {
namespace {

// Four trials that run at once.
struct MedianSearch : Story {
  explicit MedianSearch(const std::string& options) {
    Create(R"(,"space":{"x":{"uniform":[0,1]}},"metric":"score","mode":"max","num_samples":4,)"
           R"("resources":{"cpu":0.5},"scheduler":{"median_stopping":{"grace_period":2,)"
           R"("time_attr":"training_iteration","min_samples_required":2)" +
           options + "}}");
    SyncTwice();
  }
  Fence Live(uint32_t trial) { return FenceOf(trial, TrialOf(trial).runs.attempts.back().number); }
  // Rows 1 to `count` of one batch; training_iteration is the row's number.
  ReportVerdict Rows(uint32_t trial, uint64_t from, uint64_t count, double score) {
    RowBatch batch{Live(trial).attempt, 0, {}};
    for (uint64_t seq = from; seq < from + count; ++seq)
      batch.rows.push_back(
          {seq, static_cast<double>(seq), 1, now, R"({"score":)" + std::to_string(score) + "}"});
    return Do(input::Report{node, {batch}}).answer.verdicts.at(0);
  }
};

}  // namespace

TEST_CASE("median: a trial is stopped at the first row at which it is worse than the median") {
  MedianSearch search("");
  search.Rows(0, 1, 4, 8);
  search.Rows(1, 1, 4, 6);
  const ReportVerdict verdict = search.Rows(2, 1, 4, 5);
  CHECK(verdict.stop);
  CHECK(verdict.stop_seq == 2);  // The grace period is 2.
  CHECK(search.TrialOf(2).reports == 2);
  CHECK(search.TrialOf(2).stop_reason ==
        "stopped by the median rule at 2: its best value is 5, and the median of 2 others is 7");
  CHECK_FALSE(search.Rows(3, 1, 4, 7).stop);
  CHECK(search.TrialOf(0).curve.size() == 3);
}

TEST_CASE("median: rows that a restart supersedes are replaced in the curve") {
  MedianSearch search("");
  search.Rows(0, 1, 4, 8);
  const Trial& trial = search.TrialOf(0);
  CHECK(MeanUpTo(4, trial.curve) == 8);
  search.Exit(search.Live(0), 1, 4);
  search.Do(input::RetryTrial{{{1}, 0}, true});
  search.SyncTwice();
  search.Rows(0, 1, 3, 2);
  CHECK(trial.curve.size() == 2);
  CHECK(MeanUpTo(4, trial.curve) == 2);
}

TEST_CASE("median: without hard_stop a trial is paused and continues when nobody waits") {
  MedianSearch search(R"(,"hard_stop":false)");
  search.Rows(0, 1, 4, 8);
  search.Rows(1, 1, 4, 6);
  // Nobody waits: it continues, and is not decided again.
  const ReportVerdict verdict = search.Rows(2, 1, 2, 5);
  CHECK_FALSE(verdict.stop);
  CHECK_FALSE(verdict.suspend);
  CHECK(search.TrialOf(2).pause_cause == PauseCause::kNone);
  CHECK(search.TrialOf(2).milestones == std::set<double>{2});
  CHECK_FALSE(search.Rows(2, 3, 2, 5).stop);
  CHECK(search.TrialOf(2).milestones == std::set<double>{2});
}

}  // namespace rt
