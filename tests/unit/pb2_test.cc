#include "common/decide/pb2.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/algorithms/explorer.h"
#include "common/algorithms/registry.h"
#include "common/base/status.h"
#include "common/search/bandit.h"

using namespace rt;

namespace {

absl::StatusOr<ExperimentSpec> Read(const std::string& scheduler, const std::string& more = "") {
  return ParseExperimentSpec(
      *Json::Parse(R"({"experiment":"e","command":["x"],"metric":"score","mode":"max")" + more +
                   R"(,"scheduler":)" + scheduler + "}"));
}

ExperimentSpec Pb2Spec() {
  const auto spec = Read(R"({"pb2":{"time_attr":"training_iteration","perturbation_interval":2,)"
                         R"("hyperparam_bounds":{"lr":[0,10],"width":[16,64]}}})");
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  return *spec;
}

// Progress is best where lr is 7, whatever the width is.
ExploreQuestion Question() {
  ExploreQuestion question{.trial = 1,
                           .from = 0,
                           .comparisons = 9,
                           .base = R"({"lr":3.0,"width":32,"seed":5})",
                           .time = 20};
  for (int i = 0; i < 30; ++i) {
    const double lr = i % 10, width = 16 + 16 * (i % 3);
    question.samples.push_back({.time = 2.0 * (i / 3),
                                .change = 1 - std::abs(lr - 7) / 10,
                                .params = R"({"lr":)" + std::to_string(lr) + R"(,"width":)" +
                                          std::to_string(width) + "}"});
  }
  return question;
}

}  // namespace

TEST_CASE("bandit: it returns to the place where progress was best") {
  BanditData data{.axes = 1, .now = 10};
  for (int i = 0; i <= 20; ++i) {
    data.points.push_back({i / 20.0});
    data.times.push_back(10);
    data.values.push_back(-std::abs(i / 20.0 - 0.6));
  }
  Rng rng(1);
  const auto next = NextOfBandit(data, rng, {});
  REQUIRE(next);
  CHECK((*next)[0] == Approx(0.6).margin(0.1));
}

TEST_CASE("bandit: where points are being tried there is less to learn") {
  BanditData data{.axes = 1, .points = {{0.5}, {0.5}}, .times = {0, 0}, .values = {0, 0.01}};
  const auto with = [&](std::vector<std::vector<double>> pending) {
    data.pending = std::move(pending);
    Rng rng(3);
    return NextOfBandit(data, rng, {})->at(0);
  };
  CHECK(with({{0.0}, {0.1}, {0.2}}) > 0.5);
  CHECK(with({{1.0}, {0.9}, {0.8}}) < 0.5);
}

TEST_CASE("bandit: without anything to learn from a point is drawn, and it can be given up") {
  Rng rng(1), same(1);
  BanditData data{.axes = 2};
  CHECK(NextOfBandit(data, rng, {}) == NextOfBandit(data, same, {}));
  data.points = {{0, 0}, {1, 1}};
  data.times = {0, 0};
  data.values = {2, 2};  // All are equal.
  CHECK(NextOfBandit(data, rng, {}).has_value());
  data.values = {1, 2};
  CHECK(!NextOfBandit(data, rng, [] { return true; }));
}

TEST_CASE("pb2: a clone's values come from the model, and the others from its parent") {
  const ExperimentSpec spec = Pb2Spec();
  const Exploration found = ExploreFor(spec, 7, Question(), {});
  CHECK(found.fallback.empty());
  const Json params = *Json::Parse(found.params);
  CHECK(params.GetDouble("lr") == Approx(7).margin(2));
  CHECK(params.GetInt("seed") == 5);
  CHECK(params.Find("width")->is_int());  // As its parent's.
  CHECK(params.GetInt("width") >= 16);
  CHECK(params.GetInt("width") <= 64);
  CHECK(ExploreFor(spec, 7, Question(), {}).params == found.params);
  CHECK(ExploreFor(spec, 8, Question(), {}).params != found.params);
}

TEST_CASE("pb2: without an answer of the model the values are drawn, and it says so") {
  const ExperimentSpec spec = Pb2Spec();
  const Exploration drawn = ExploreFor(spec, 7, Question(), [] { return true; });
  CHECK(drawn.fallback == "the model was given up");
  CHECK(ExploreFor(spec, 7, Question(), {}, /*is_failed=*/true).params == drawn.params);
  ExploreQuestion strange = Question();
  strange.samples.push_back({.time = 1, .change = NAN, .params = "{}"});
  strange.samples.push_back({.time = 1, .change = 1, .params = R"({"lr":"high","width":1})"});
  strange.pending = {"[", R"({"lr":1})"};
  CHECK(ExploreFor(spec, 7, strange, {}).fallback.empty());
}

TEST_CASE("pb2: it compares trials as pbt does, and leaves the clones to the lane") {
  const ExperimentSpec spec = Pb2Spec();
  const Scheduler& pb2 = SchedulerOf(spec);
  CHECK(pb2.explores_on_lane());
  const std::string params = R"({"lr":0.5})";
  SearchReview review{.recorded = 1, .seed = 3};
  for (uint32_t i = 0; i < 4; ++i)
    review.population.push_back({i, i == 1 ? 0.0 : 1.0 + i, 1, 7, &params});
  CHECK(pb2.Review(spec, review).clones.empty());
  CHECK(pb2.ParentOf(spec, review) == 3u);
  review.recorded = 2;
  CHECK(!pb2.ParentOf(spec, review));
}

TEST_CASE("pb2: bounds and searches that cannot be used are refused") {
  const auto problem = [](const std::string& bounds) {
    return MessageOf(Read(R"({"pb2":{"hyperparam_bounds":)" + bounds + "}}").status());
  };
  CHECK(problem("{}") ==
        "scheduler/pb2/hyperparam_bounds: names the parameters that are explored, at least one");
  for (const char* bounds : {R"({"lr":[1]})", R"({"lr":[2,1]})", R"({"lr":["a",1]})"})
    CHECK(problem(bounds) ==
          "scheduler/pb2/hyperparam_bounds/lr: must be two numbers, the smaller one first");
  CHECK(MessageOf(Read(R"({"pb2":{"hyperparam_bounds":{"lr":[0,1]}}})",
                       R"(,"space":{"lr":{"uniform":[0,1]}},"search":"tpe")")
                      .status())
            .find("pb2 changes the configurations") != std::string::npos);
}

TEST_CASE("pbt replay: a trial takes the recorded configurations at their times") {
  const auto spec = Read(
      R"({"pbt_replay":{"policy":[{"time":2,"config":{"lr":2}},{"time":5,"config":{"lr":3}}]}})");
  REQUIRE(spec.ok());
  const Scheduler& replay = SchedulerOf(*spec);
  const TrialLimits limits = replay.LimitsOf(*spec, 0);
  CHECK(limits.milestones == std::vector<double>{2, 5});
  const Json row = Json::MakeObject();
  const auto at = [&](double t, const std::set<double>& recorded) {
    return replay.OnRow(*spec, {0, 0, recorded, limits}, {row, t, 0}).milestone;
  };
  CHECK(at(1, {}) == std::nullopt);
  CHECK(at(2, {}) == 2.0);
  CHECK(at(4, {2}) == std::nullopt);
  CHECK(at(9, {}) == 5.0);  // What was passed over is of no effect.
  const std::string params = R"({"lr":1,"seed":4})";
  SearchReview review{.paused = {{.number = 0, .milestone = 5, .is_live = true}}};
  review.population.push_back({0, 5, 2, 3, &params});
  CHECK(replay.Review(*spec, review).resumed.empty());  // It has not ended yet.
  review.paused[0].is_live = false;
  const ReviewVerdict verdict = replay.Review(*spec, review);
  CHECK(verdict.resumed == std::vector<uint32_t>{0});
  REQUIRE(verdict.clones.size() == 1);
  CHECK(verdict.clones[0].from == 0);
  CHECK(verdict.clones[0].params.Dump() == R"({"lr":3,"seed":4})");
  review.population[0].checkpoint = 0;
  CHECK(replay.Review(*spec, review).clones.empty());
}

TEST_CASE("pbt replay: a policy that cannot be followed is refused") {
  for (const char* policy :
       {"[]", R"([{"time":0,"config":{}}])", R"([{"time":1}])",
        R"([{"time":2,"config":{}},{"time":1,"config":{}}])", R"([{"config":{}}])"})
    CHECK_FALSE(Read(std::string(R"({"pbt_replay":{"policy":)") + policy + "}}").ok());
}
