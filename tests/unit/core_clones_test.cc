// Clones in the core: a trial continues from a checkpoint of another one, with its configuration
// mutated.
#include "tests/unit/core_story.h"

namespace rt {
namespace {

constexpr char kPopulation[] =
    R"(,"space":{"lr":{"uniform":[0.4,0.6]}},"metric":"score","mode":"max","num_samples":2,)"
    R"("scheduler":{"pbt":{"time_attr":"training_iteration","perturbation_interval":2,)"
    R"("resample_probability":0,"hyperparam_mutations":{"lr":{"uniform":[0,1]}}}})";

// Two trials that run at once: trial 0 is good, trial 1 is bad.
struct Population : Story {
  explicit Population(const std::string& more = "") {
    Create(kPopulation + more);
    SyncTwice();
  }
  Fence Live(uint32_t trial) { return FenceOf(trial, TrialOf(trial).runs.attempts.back().number); }
  Row RowOf(uint64_t seq, double t, double score) {
    return {seq, t, t, now, R"({"score":)" + std::to_string(score) + "}"};
  }
  ReportVerdict RowAt(uint32_t trial, uint64_t seq, double t, double score) {
    return Do(input::Report{node, {{Live(trial).attempt, 0, {RowOf(seq, t, score)}}}})
        .answer.verdicts.at(0);
  }
  absl::Status Save(uint32_t trial, uint64_t seq, double t, double score) {
    input::CommitCheckpoint commit;
    commit.fence = Live(trial);
    commit.node = node;
    commit.manifest = "m" + std::to_string(trial) + "-" + std::to_string(seq);
    commit.row = RowOf(seq, t, score);
    return Do(commit).verdict;
  }
  // Both come to the first interval, and trial 1 is compared last.
  ReportVerdict Compare() {
    RowAt(0, 1, 2, 9);
    REQUIRE(Save(0, 1, 2, 9).ok());
    return RowAt(1, 1, 2, 1);
  }
};

}  // namespace

TEST_CASE("clone: it takes the parent's checkpoint and a mutated configuration") {
  Population population;
  const ReportVerdict verdict = population.Compare();
  CHECK(verdict.stop);
  CHECK(verdict.reason == "it continues from a checkpoint of trial 0");
  const Trial& trial = population.TrialOf(1);
  REQUIRE(trial.clones.size() == 1);
  CHECK(trial.clones[0].from == 0);
  CHECK(trial.clones[0].iteration == 2);
  CHECK(trial.stop_cause == StopCause::kNone);
  CHECK(trial.runs.checkpoints.back().manifest == "m0-1");
  const double parent = Json::Parse(population.TrialOf(0).params)->GetDouble("lr");
  const double lr = Json::Parse(trial.params)->GetDouble("lr");
  CHECK((lr == parent * 1.2 || lr == parent * 0.8));
  const Json view = *ExperimentView(population.core, {.now = population.now}, ExperimentId{1});
  CHECK(view.Find("population")->array().at(1).Dump() ==
        R"({"trial":"1/1","score":1.0,"compared_at":2,"clones":1,"cloned_from":"1/0"})");
  population.Exit(population.Live(1), 0, 1);
  CHECK(population.StateOf(1) == "RUNNING");
  CHECK(trial.runs.failures == 0);
  const LaunchSpec launch = LaunchSpecFor(population.core.world, population.Live(1));
  CHECK(launch.checkpoint == "m0-1");
  CHECK(launch.iteration_base == 2);
  CHECK(launch.params == trial.params);
}

TEST_CASE("clone: its own rows stay, and its best value is that of rows to come") {
  Population population;
  population.Compare();
  const Trial& trial = population.TrialOf(1);
  CHECK(!trial.has_best);
  population.Exit(population.Live(1), 0, 1);
  CHECK(trial.Counts(population.FenceOf(1, 1).attempt, 1));
  CHECK(trial.reports == 1);
  population.RowAt(1, 1, 3, 8);
  CHECK(trial.best == 8);
  CHECK(trial.reports == 2);
}

TEST_CASE("clone: its parent's values are not shown as its own") {
  Population population;
  population.Compare();
  auto view = [&] { return *TrialView(population.core, {.now = population.now}, TrialId{{1}, 1}); };
  const Json clones = *view().Find("clones");
  CHECK(clones.array().at(0).Find("at")->AsString() == FormatTime(population.now));
  population.Exit(population.Live(1), 0, 1);
  CHECK(view().Find("metrics")->is_null());
  CHECK(view().Find("step")->AsDouble() == 2);
  population.RowAt(1, 1, 3, 8);
  CHECK(view().Find("metrics")->GetDouble("score") == 8);
}

TEST_CASE("clone: a population that saves no checkpoints is warned of") {
  Population population;
  auto warnings = [&] {
    const Json view = *ExperimentView(population.core, {.now = population.now}, ExperimentId{1});
    return view.Find("warnings")->Dump();
  };
  CHECK(warnings() == "[]");
  population.RowAt(0, 1, 2, 9);
  CHECK_THAT(warnings(), Catch::Contains("no trial has saved a checkpoint, so that pbt replaces "
                                         "none"));
  REQUIRE(population.Save(0, 1, 2, 9).ok());
  CHECK(warnings() == "[]");
}

TEST_CASE("clone: stop rules in the driver leave clones to the scheduler of the head") {
  Population population(R"(,"driver":{"judges":true})");
  population.Compare();
  CHECK(population.TrialOf(1).clones.size() == 1);
}

TEST_CASE("clone: what its old attempt reports or saves afterwards does not count") {
  Population population;
  population.Compare();
  CHECK(population.Save(1, 1, 2, 1).code() == absl::StatusCode::kFailedPrecondition);
  population.RowAt(1, 2, 3, 100);
  const Trial& trial = population.TrialOf(1);
  CHECK(trial.runs.checkpoints.size() == 1);
  CHECK(!trial.has_best);
  CHECK(trial.reports == 1);
}

TEST_CASE("clone: an old attempt that fails or returns does not end the trial") {
  for (int code : {0, 1}) {
    Population population;
    population.Compare();
    population.running[population.Live(1)].exit_code = code;
    population.Exit(population.Live(1), code, 1);
    CHECK(population.StateOf(1) == "RUNNING");
    CHECK(population.TrialOf(1).runs.failures == 0);
  }
}

TEST_CASE("clone: the parent's checkpoint is kept when the parent retires it") {
  Population population;
  population.Compare();
  population.Do(input::StopTrial{{{1}, 0}, "enough"});
  population.Exit(population.Live(0), 0, 1);
  population.Exit(population.Live(1), 0, 1);
  CHECK(LaunchSpecFor(population.core.world, population.Live(1)).checkpoint == "m0-1");
}

TEST_CASE("clone: of its older checkpoints those are kept that the policy says") {
  Population population(R"(,"checkpoints":{"num_to_keep":1})");
  population.RowAt(1, 1, 1, 1);
  REQUIRE(population.Save(1, 1, 1, 1).ok());
  population.RowAt(0, 1, 2, 9);
  REQUIRE(population.Save(0, 1, 2, 9).ok());
  CHECK(population.RowAt(1, 2, 2, 1).stop);
  const std::vector<Checkpoint>& kept = population.TrialOf(1).runs.checkpoints;
  REQUIRE(kept.size() == 1);
  CHECK(kept.front().manifest == "m0-1");
}

TEST_CASE("clone: a trial that meets a stop rule where it is compared is not cloned") {
  Population population;
  population.RowAt(0, 1, 2, 9);
  REQUIRE(population.Save(0, 1, 2, 9).ok());
  population.Do(input::StopTrial{{{1}, 1}, "enough"});
  population.RowAt(1, 1, 2, 1);
  CHECK(population.TrialOf(1).clones.empty());
}

TEST_CASE("clone: without a checkpoint in the store there is nothing to take") {
  Population population;
  population.RowAt(0, 1, 2, 9);
  CHECK(!population.RowAt(1, 1, 2, 1).stop);
  CHECK(population.TrialOf(1).clones.empty());
}

}  // namespace rt
