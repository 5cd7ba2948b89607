// How near to the front, and to the best that keeps its constraints, searches come. These cases
// check numbers, as the released code computes them.
#include <catch2/catch.hpp>
#include <cmath>

#include "common/algorithms/ask_tell.h"
#include "common/base/rng.h"
#include "common/spec/pareto.h"

using namespace rt;

TEST_CASE("outcomes: a search approaches the front, and keeps its constraint") {
  const std::string search = GENERATE("tpe", "gp", "auto");
  INFO(search);
  const ExperimentSpec spec = *ParseExperimentSpec(*Json::Parse(
      R"({"experiment":"e","command":["x"],"num_samples":80,
          "space":{"x":{"uniform":[0,1]},"y":{"uniform":[0,1]},"z":{"uniform":[0,1]}},
          "metric":["a","b"],"mode":["min","max"],"constraints":{"c":{">=":0.2}},
          "search":")" +
      search + "\"}"));
  AskTell asked(spec, 3);
  std::vector<Values> even, late;
  Rng rng(3, 0);
  for (int i = 0; i < 40; ++i) {
    const double x = rng.Uniform(), off = rng.Uniform() + rng.Uniform();
    if (x >= 0.2) even.push_back({x + off, 1 - x + off});
  }
  int kept = 0;
  while (const auto trial = asked.Ask()) {
    const Json params = *Json::Parse(trial->params);
    const double x = params.GetDouble("x"), off = params.GetDouble("y") + params.GetDouble("z");
    TrialResult result{TrialResult::Kind::kValue};
    result.outcome = {x + off, -(1 - x + off), x};
    if (x >= 0.2 && trial->number >= 50) ++kept;
    if (x >= 0.2 && trial->number >= 40) late.push_back({x + off, 1 - x + off});
    REQUIRE(asked.Tell(trial->number, result).ok());
  }
  CHECK(kept >= 25);
  CHECK(Hypervolume(late, {2, 2}) > (search == "gp" ? 1.2 : 1) * Hypervolume(even, {2, 2}));
}

TEST_CASE("outcomes: one objective with a constraint that few configurations keep") {
  const std::string search = GENERATE("tpe", "gp");
  INFO(search);
  const ExperimentSpec spec = *ParseExperimentSpec(*Json::Parse(
      R"({"experiment":"e","command":["x"],"num_samples":60,
          "space":{"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}},"metric":"loss","mode":"min",
          "constraints":{"size":{"<=":0.3}},"search":")" +
      search + "\"}"));
  AskTell asked(spec, 8);
  double best = HUGE_VAL;
  while (const auto trial = asked.Ask()) {
    CHECK(trial->fallback == "");
    const Json params = *Json::Parse(trial->params);
    const double x = params.GetDouble("x"), y = params.GetDouble("y");
    TrialResult result{TrialResult::Kind::kValue};
    result.outcome = {2 - x - y, x * x + y * y};  // The best: x = y = sqrt(0.15).
    if (result.outcome[1] <= 0.3) best = std::min(best, result.outcome[0]);
    REQUIRE(asked.Tell(trial->number, result).ok());
  }
  CHECK(best < 2 - 2 * std::sqrt(0.15) + 0.05);
}

TEST_CASE("outcomes: a constraint that some trials exceed without bound is learned all the same") {
  const ExperimentSpec spec = *ParseExperimentSpec(*Json::Parse(
      R"({"experiment":"e","command":["x"],"num_samples":50,
          "space":{"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}},"metric":"loss","mode":"min",
          "constraints":{"size":{"<=":0.3}},"search":"gp"})"));
  AskTell asked(spec, 8);
  double best = HUGE_VAL;
  while (const auto trial = asked.Ask()) {
    const Json params = *Json::Parse(trial->params);
    const double x = params.GetDouble("x"), y = params.GetDouble("y"), size = x * x + y * y;
    TrialResult result{TrialResult::Kind::kValue};
    result.outcome = {2 - x - y, size <= 1 ? size : HUGE_VAL};
    if (size <= 0.3) best = std::min(best, result.outcome[0]);
    REQUIRE(asked.Tell(trial->number, result).ok());
  }
  CHECK(best < 2 - 2 * std::sqrt(0.15) + 0.02);  // Without the constraint's model: 0.06.
}
