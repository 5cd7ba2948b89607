#include "common/decide/pbt.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "common/algorithms/registry.h"
#include "common/base/status.h"
#include "common/search/basic.h"
#include "common/spec/journalled_spec.h"

using namespace rt;

namespace {

Json Parsed(const std::string& text) { return *Json::Parse(text); }

// Every value of "x" that exploring leads to.
std::set<std::string> Explored(const std::string& value, const std::string& mutation,
                               double resample) {
  std::set<std::string> found;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    Rng rng(seed);
    const Json params = Explore(Parsed("{\"x\":" + value + "}"), Parsed("{\"x\":" + mutation + "}"),
                                {.resample_probability = resample, .draw = Draw}, rng);
    found.insert(params.Find("x")->Dump());
  }
  return found;
}

using Values = std::set<std::string>;

ExperimentSpec SpecWith(const std::string& options) {
  const auto spec = ParseExperimentSpec(
      Parsed(R"({"experiment":"e","command":["x"],"metric":"score","mode":"max",)"
             R"("scheduler":{"pbt":{"time_attr":"training_iteration","perturbation_interval":2,)"
             R"("hyperparam_mutations":{"lr":{"uniform":[0,1]}})" +
             options + "}}}"));
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  return *spec;
}

std::string ProblemWith(const std::string& mutations) {
  return MessageOf(ParseExperimentSpec(Parsed(R"({"experiment":"e","command":["x"],"metric":"m",)"
                                              R"("scheduler":{"pbt":{"hyperparam_mutations":)" +
                                              mutations + "}}}"))
                       .status());
}

}  // namespace

// The values of Ray's test_trial_scheduler.py.
TEST_CASE("pbt: exploring a list takes the value before or after, as in Ray") {
  const std::string list = "[3,4,8,10]";
  CHECK(Explored("4", list, 0) == Values{"3", "8"});
  CHECK(Explored("3", list, 0) == Values{"3", "4"});
  CHECK(Explored("10", list, 0) == Values{"8", "10"});
  CHECK(Explored("7", list, 0) == Values{"3", "4", "8", "10"});
  CHECK(Explored("4", list, 1) == Values{"3", "4", "8", "10"});
  CHECK(Explored("4.0", list, 0) == Values{"3", "8"});
}

TEST_CASE("pbt: exploring a number multiplies it, as in Ray, and stays in its domain") {
  CHECK(Explored("100", R"({"uniform":[0,1000]})", 0) == Values{"80", "120"});
  CHECK(Explored("100.0", R"({"uniform":[0,1000]})", 0) == Values{"80.0", "120.0"});
  CHECK(Explored("100.0", R"({"uniform":[0,110]})", 0) == Values{"80.0", "110.0"});
  CHECK(Explored("5", R"({"randint":[1,6]})", 0) == Values{"4", "5"});
  CHECK(Explored("100.0", R"({"choice":[10.0,100.0]})", 1) == Values{"10.0", "100.0"});
  CHECK(Explored("100.0", R"({"uniform":[0,1000]})", 1).size() > 50);
  CHECK(Explored("null", R"({"randint":[1,2]})", 0) == Values{"1"});
  CHECK(Explored("0.5", R"({"quniform":[0,1,0.25]})", 0) == Values{"0.5"});
  CHECK(Explored("1.0", R"({"quniform":[0,1,0.1]})", 0) == Values{"0.8", "1.0"});
  CHECK(Explored("40", R"({"qrandint":[15,45,10]})", 0) == Values{"30", "40"});
  CHECK(Explored("9000000000000000000", R"({"uniform":[0,1e300]})", 0) ==
        Values{"9007199254740992"});
}

TEST_CASE("pbt: parameters in maps are explored, and others stay") {
  Rng rng(1);
  const Json params =
      Explore(Parsed(R"({"net":{"width":16,"depth":2},"seed":7})"),
              Parsed(R"({"net":{"width":[16,32]}})"), {.resample_probability = 0}, rng);
  CHECK(params.Find("seed")->AsInt() == 7);
  CHECK(params.Find("net")->Find("depth")->AsInt() == 2);
}

TEST_CASE("pbt: the quantiles have the sizes of Ray's") {
  CHECK(QuantileSize(1, 0.25) == 0);
  CHECK(QuantileSize(2, 0.25) == 1);
  CHECK(QuantileSize(3, 0.25) == 1);
  CHECK(QuantileSize(4, 0.25) == 1);
  CHECK(QuantileSize(5, 0.25) == 2);
  CHECK(QuantileSize(8, 0.25) == 2);
  CHECK(QuantileSize(10, 0.25) == 3);
  CHECK(QuantileSize(5, 0.5) == 2);
  CHECK(QuantileSize(5, 0) == 0);
}

TEST_CASE("pbt: a row is compared once in each interval, after the burn-in period") {
  const ExperimentSpec spec = SpecWith(R"(,"burn_in_period":3)");
  const Scheduler& pbt = SchedulerOf(spec);
  const TrialLimits limits = pbt.LimitsOf(spec, 0);
  CHECK(limits.milestones.front() == 4);
  auto milestone = [&](double t, const std::set<double>& recorded) {
    const Json row = Parsed(R"({"score":1})");
    return pbt.OnRow(spec, {0, 0, recorded, limits}, {row, t, 0}).milestone;
  };
  CHECK(milestone(2, {}) == std::nullopt);
  CHECK(milestone(3, {}) == 2.0);
  CHECK(milestone(4, {2}) == 4.0);
  CHECK(milestone(5, {2, 4}) == std::nullopt);
  CHECK(milestone(NAN, {}) == std::nullopt);
  CHECK(milestone(INFINITY, {2}) == std::nullopt);
}

TEST_CASE("pbt: a row at a point where its program waits is compared there") {
  const ExperimentSpec spec = *ParseExperimentSpec(
      Parsed(R"({"experiment":"e","command":["x"],"metric":"score","mode":"max","scheduler":)"
             R"({"pbt":{"perturbation_interval":0.1,"hyperparam_mutations":{"lr":[1,2]}}}})"));
  const Scheduler& pbt = SchedulerOf(spec);
  const TrialLimits limits = pbt.LimitsOf(spec, 0);
  const Json row = Parsed(R"({"score":1})");
  const std::set<double> none;
  for (double at : limits.milestones)
    CHECK(pbt.OnRow(spec, {0, 0, none, limits}, {row, 1, at}).milestone == at);
}

TEST_CASE("pbt: a trial in the lowest quantile takes a checkpoint from the highest") {
  const ExperimentSpec spec = SpecWith(R"(,"resample_probability":0)");
  const Scheduler& pbt = SchedulerOf(spec);
  const std::string params = R"({"lr":0.5})";
  SearchReview review{.recorded = 1, .seed = 3, .draw = Draw};
  for (uint32_t i = 0; i < 4; ++i)
    review.population.push_back({i, i == 1 ? 0.0 : 1.0 + i, 1, i == 3 ? 7u : 0u, &params});
  const ReviewVerdict verdict = pbt.Review(spec, review);
  REQUIRE(verdict.clones.size() == 1);
  CHECK(verdict.clones[0].trial == 1);
  CHECK(verdict.clones[0].from == 3);
  CHECK(verdict.clones[0].checkpoint == 7);
  const double lr = verdict.clones[0].params.GetDouble("lr");
  CHECK((lr == 0.6 || lr == 0.4));
  review.population[3].checkpoint = 0;  // Nothing to take yet.
  CHECK(pbt.Review(spec, review).clones.empty());
  review.recorded = 2;  // Neither lowest nor highest.
  CHECK(pbt.Review(spec, review).clones.empty());
}

TEST_CASE("pbt: a trial pauses at its milestone while others wait for its nodes") {
  const ExperimentSpec spec = SpecWith("");
  const Scheduler& pbt = SchedulerOf(spec);
  const std::vector<double> none;
  RungValues rung{.milestone = 2, .values = none};
  using Action = TrialVerdict::Action;
  CHECK(pbt.AtMilestone(spec, rung, 0.5).action == Action::kContinue);
  rung.others_queue = true;
  CHECK(pbt.AtMilestone(spec, rung, 0.5).action == Action::kPause);
  CHECK(pbt.AtMilestone(spec, rung, 0.5).reason ==
        "at 2, until the trials behind it have had their turn");
  rung.may_save = false;  // It would begin again.
  CHECK(pbt.AtMilestone(spec, rung, 0.5).action == Action::kContinue);
}

TEST_CASE("pbt: the least advanced trial has the next turn, when nobody else waits") {
  const ExperimentSpec spec = SpecWith("");
  SearchReview review{.paused = {{.number = 0, .milestone = 6},
                                 {.number = 1, .milestone = 2, .is_live = true},
                                 {.number = 2, .milestone = 4},
                                 {.number = 3, .milestone = 4}}};
  CHECK(SchedulerOf(spec).Review(spec, review).resumed == std::vector<uint32_t>{2});
  review.others_queue = true;
  CHECK(SchedulerOf(spec).Review(spec, review).resumed.empty());
}

TEST_CASE("pbt: with synch the trials are compared together, and continue together") {
  const ExperimentSpec spec = SpecWith(R"(,"resample_probability":0,"synch":true)");
  const Scheduler& pbt = SchedulerOf(spec);
  const std::vector<double> none;
  CHECK(pbt.AtMilestone(spec, {.milestone = 2, .values = none}, 1).action ==
        TrialVerdict::Action::kPause);
  const std::string params = R"({"lr":0.5})";
  SearchReview review{.recorded = 3, .seed = 3, .draw = Draw};
  for (uint32_t i = 0; i < 4; ++i) {
    review.population.push_back({i, i == 1 ? 0.0 : 1.0 + i, 1, 7, &params, i != 2});
    if (i != 2) review.paused.push_back({.number = i, .milestone = 2});
  }
  CHECK(pbt.Review(spec, review).clones.empty());  // One of them is still on its way.
  CHECK(pbt.Review(spec, review).resumed.empty());
  review.population[2].is_paused = true;
  review.paused.push_back({.number = 2, .milestone = 2});
  const ReviewVerdict verdict = pbt.Review(spec, review);
  REQUIRE(verdict.clones.size() == 1);
  CHECK(verdict.clones[0].trial == 1);
  CHECK(verdict.clones[0].from == 3);
  CHECK(verdict.resumed == std::vector<uint32_t>{0, 1, 3, 2});
  review.others_come = true;  // A population that is not complete waits.
  CHECK(pbt.Review(spec, review).resumed.empty());
}

TEST_CASE("pbt: mutations that cannot be explored are refused") {
  CHECK(ProblemWith("{}") ==
        "scheduler/pbt/hyperparam_mutations: names the parameters that are mutated, at least one");
  CHECK(ProblemWith("[1]") == "scheduler/pbt/hyperparam_mutations: must be a map of parameters");
  CHECK(ProblemWith(R"({"lr":3})") ==
        "scheduler/pbt/hyperparam_mutations: the parameter 'lr' must "
        "have a list of values, or a domain");
  CHECK(ProblemWith(R"({"net":{"w":[]}})") ==
        "scheduler/pbt/hyperparam_mutations: the parameter 'net/w' has an empty list");
  CHECK(ProblemWith(R"({"lr":{"grid":[1,2]}})") ==
        "scheduler/pbt/hyperparam_mutations: the parameter 'lr' must not have a grid");
}

TEST_CASE("pbt: where a driver explores, nothing need be mutated; no other scheduler has one") {
  const auto spec_with = [](const std::string& scheduler) {
    return ParseExperimentSpec(Parsed(R"({"experiment":"e","command":["x"],"metric":"m",)"
                                      R"("driver":{"explores":true},"scheduler":)" +
                                      scheduler + "}"));
  };
  const auto spec = spec_with(R"("pbt")");
  REQUIRE(spec.ok());
  CHECK(spec->driver.explores);
  const auto back = ReadJournalledExperiment({"", NormalText(*spec), kSpecFormat});
  CHECK(back.warnings.empty());
  CHECK(back.spec.driver.explores);
  CHECK(back.spec.driver.IsAsked());
  for (const char* other : {R"("asha")", R"({"pb2":{"hyperparam_bounds":{"lr":[0,1]}}})"})
    CHECK(MessageOf(spec_with(other).status()).find("driver/explores: the scheduler ") == 0);
}

TEST_CASE("pbt: it needs mutations, and parameters of the space to mutate") {
  const auto problem = [](const std::string& scheduler) {
    return MessageOf(ParseExperimentSpec(Parsed(R"({"experiment":"e","command":["x"],"metric":"m",)"
                                                R"("space":{"lr":{"uniform":[0,1]}},"scheduler":)" +
                                                scheduler + "}"))
                         .status());
  };
  CHECK(problem(R"("pbt")").find("names the parameters that are mutated") != std::string::npos);
  CHECK(problem(R"({"pbt":{"hyperparam_mutations":{"rl":[1,2]}}})") ==
        "scheduler/pbt/hyperparam_mutations/rl: the space has no parameter 'rl'");
  CHECK(problem(R"({"pb2":{"hyperparam_bounds":{"rl":[1,2]}}})") ==
        "scheduler/pb2/hyperparam_bounds/rl: the space has no parameter 'rl'");
  CHECK(problem(R"({"pb2":{"hyperparam_bounds":{"lr":[0,1]}}})").empty());
}

TEST_CASE("pbt_replay: a trial waits for the store to have its newest checkpoint") {
  const auto spec = ParseExperimentSpec(
      Parsed(R"({"experiment":"e","command":["x"],"space":{"lr":0.5},)"
             R"("scheduler":{"pbt_replay":{"policy":[{"time":2,"config":{"lr":0.1}}]}}})"));
  REQUIRE(spec.ok());
  const Scheduler& replay = SchedulerOf(*spec);
  const std::string params = R"({"lr":0.5})";
  SearchReview review{.paused = {{.number = 0, .milestone = 2}},
                      .population = {{.number = 0,
                                      .score = 2,
                                      .comparisons = 1,
                                      .checkpoint = 4,
                                      .params = &params,
                                      .is_paused = true,
                                      .newest = 5}}};
  ReviewVerdict verdict = replay.Review(*spec, review);
  CHECK(verdict.resumed.empty());
  CHECK(verdict.clones.empty());
  review.population[0].checkpoint = 5;
  verdict = replay.Review(*spec, review);
  CHECK(verdict.resumed == std::vector<uint32_t>{0});
  REQUIRE(verdict.clones.size() == 1);
  CHECK(verdict.clones[0].checkpoint == 5);
  CHECK(verdict.clones[0].params.Dump() == R"({"lr":0.1})");
}

TEST_CASE("pbt: a search algorithm that learns is refused beside it") {
  const auto spec = ParseExperimentSpec(
      Parsed(R"({"experiment":"e","command":["x"],"metric":"m","space":{"lr":{"uniform":[0,1]}},)"
             R"("search":"tpe","scheduler":{"pbt":{"hyperparam_mutations":{"lr":[1,2]}}}})"));
  CHECK(MessageOf(spec.status()) ==
        "scheduler: pbt changes the configurations of its trials itself, so that search 'tpe' "
        "would learn nothing");
  const auto replay = ParseExperimentSpec(
      Parsed(R"({"experiment":"e","command":["x"],"metric":"m","space":{"lr":{"uniform":[0,1]}},)"
             R"("search":"tpe","scheduler":{"pbt_replay":{"policy":[{"time":2,"config":{}}]}}})"));
  CHECK(MessageOf(replay.status()) ==
        "scheduler: pbt_replay changes the configurations of its trials itself, so that search "
        "'tpe' would learn nothing");
}
