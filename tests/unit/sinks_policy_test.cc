// What the sinks leave of a trial that was cloned.
#include "tests/unit/sinks_story.h"

using namespace rt;

namespace {

constexpr ExperimentId kPopulation{2};

// Experiment 2 has two trials that run at once: trial 0 is good, trial 1 is bad.
struct Population : Story {
  Population() {
    Do(input::CreateExperiment{
        .spec = R"({"experiment":"p","command":["x"],"resources":{"cpu":0.5},"num_samples":2,)"
                R"("space":{"lr":{"uniform":[0.4,0.6]}},"metric":"score","mode":"max",)"
                R"("scheduler":{"pbt":{"time_attr":"training_iteration",)"
                R"("perturbation_interval":2,"hyperparam_mutations":{"lr":{"uniform":[0,1]}}}}})",
        .request_key = "k2",
        .drawn_seed = 9,
        .results_root = folder.path()});
    Sync();
    Sync();
  }
  const Trial& TrialOf(uint32_t number) {
    return core.world.state.experiments.at(kPopulation).trials.at(number);
  }
  void Report(uint32_t trial, double score, bool saves) {
    const Fence fence{{Owner::Of(TrialId{kPopulation, trial}), 1, 1}, 0};
    const Row row{1, 2, 2, now, R"({"score":)" + std::to_string(score) + "}"};
    Do(input::Report{{1}, {{fence.attempt, 0, {row}}}});
    if (!saves) return;
    input::CommitCheckpoint commit;
    commit.fence = fence;
    commit.node = {1};
    commit.manifest = "m";
    commit.row = row;
    Do(commit);
  }
  std::filesystem::path Results() {
    return core.world.state.experiments.at(kPopulation).results_dir;
  }
};

}  // namespace

TEST_CASE("sinks: the policy of a cloned trial is a file, in Ray's form") {
  Population population;
  const std::string before = population.TrialOf(1).params;
  population.Report(0, 9, true);
  population.Report(1, 1, false);
  REQUIRE(population.TrialOf(1).cloned == 1);
  population.WaitFlushed();
  const Trial& clone = population.TrialOf(1);
  REQUIRE(clone.params != before);
  CHECK(Lines(population.Results() / "pbt_policy_2_1.txt") ==
        std::vector<std::string>{R"(["2/1","2/0",null,2,)" + population.TrialOf(0).params + "," +
                                 clone.params + "]"});
  CHECK(!std::filesystem::exists(population.Results() / "pbt_policy_2_0.txt"));
  // Its configuration is the new one from then on, also if it never runs again.
  const std::string name = TrialName(population.core.world.state.experiments.at(kPopulation),
                                     population.core.world.index.experiments.at(kPopulation), 1);
  const auto params = Json::Parse(ReadText(population.Results() / name / "params.json"));
  REQUIRE(params.ok());
  CHECK(params->Dump() == Json::Parse(clone.params)->Dump());
}

TEST_CASE("sinks: the policy of a cloned trial is written anew after a restart of the head") {
  Population population;
  population.WaitFlushed();
  population.sinks.reset();
  population.Report(0, 9, true);
  population.Report(1, 1, false);
  const std::filesystem::path path = population.Results() / "pbt_policy_2_1.txt";
  std::ofstream(path) << "half a li";
  population.StartSinks();
  population.WaitFlushed();
  CHECK(Lines(path).size() == 1);
  CHECK(Json::Parse(Lines(path).at(0)).ok());
}
