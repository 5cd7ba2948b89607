// Several objectives, and constraints on what trials report.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "common/algorithms/ask_tell.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/search/outcomes.h"
#include "common/spec/journalled_spec.h"
#include "common/spec/pareto.h"

using namespace rt;

namespace {
std::string OutcomeErrorOf(const std::string& more) {
  const auto spec = ParseExperimentSpec(*Json::Parse(
      R"({"experiment":"e","command":["x"],"space":{"x":{"uniform":[0,1]}})" + more + "}"));
  return spec.ok() ? "" : MessageOf(spec.status());
}

ExperimentSpec OutcomeSpecOf(const std::string& more) {
  CHECK(OutcomeErrorOf(more) == "");
  return *ParseExperimentSpec(*Json::Parse(
      R"({"experiment":"e","command":["x"],"space":{"x":{"uniform":[0,1]}})" + more + "}"));
}

// By counting points of a fine grid.
double CountedVolume(const std::vector<Values>& points, size_t objectives) {
  constexpr int kSide = 20;
  int inside = 0, all = 1;
  for (size_t k = 0; k < objectives; ++k) all *= kSide;
  for (int cell = 0; cell < all; ++cell) {
    Values at;
    for (int rest = cell, k = 0; k < static_cast<int>(objectives); ++k, rest /= kSide)
      at.push_back((rest % kSide + 0.5) / kSide);
    for (const Values& point : points) {
      bool dominates = true;
      for (size_t k = 0; k < objectives; ++k) dominates = dominates && point[k] <= at[k];
      if (!dominates) continue;
      ++inside;
      break;
    }
  }
  return static_cast<double>(inside) / all;
}
}  // namespace

TEST_CASE("pareto: fronts") {
  const std::vector<Values> points = {{1, 3}, {2, 2}, {3, 1},           {2, 3},
                                      {3, 3}, {2, 2}, {std::nan(""), 0}};
  CHECK(FrontOf(points) == std::vector<size_t>{0, 1, 2, 5, 6});
  CHECK(PlacesOf(points, 25, 100) == std::vector<double>{0, 0, 0, 1, 2, 0, 0});
  CHECK(Dominates({1, 1}, {1, 2}));
  CHECK_FALSE(Dominates({1, 1}, {1, 1}));
  // Of a large front the ends come first, and then what has the most space around it.
  const std::vector<Values> line = {{0, 10}, {1, 9}, {2, 8}, {6, 4}, {10, 0}};
  CHECK(PlacesOf(line, 2, 100) == std::vector<double>{0, 2, 1, 1, 0});
}

TEST_CASE("outcomes: known results have a number for each objective and constraint") {
  const auto known = [](const std::string& value) {
    return R"(,"search":{"tpe":{"evaluated":[{"config":{"x":0.5},"value":)" + value + "}]}}";
  };
  const std::string one = R"(,"metric":"a","mode":"min")";
  const std::string two = R"(,"metric":["a","b"],"mode":["min","max"])";
  CHECK(OutcomeErrorOf(one + known("1")) == "");
  CHECK(OutcomeErrorOf(one + known("null")) == "");
  CHECK(OutcomeErrorOf(two + known("[1,2]")) == "");
  CHECK(OutcomeErrorOf(one + known("[1]")) == "search/tpe/evaluated/0/value: must be one number");
  CHECK(OutcomeErrorOf(two + known("1")) ==
        "search/tpe/evaluated/0/value: must be a list of 2 numbers: of a, b");
}

TEST_CASE("outcomes: how trials are ordered does not depend on the order in which they ended") {
  for (const char* metrics :
       {R"(,"metric":"a","mode":"min")", R"(,"metric":["a","b"],"mode":["min","min"])"}) {
    const std::string constraints = R"(,"constraints":{"c":{"<=":1}})";
    const Outcomes outcomes(OutcomeSpecOf(metrics + constraints));
    const bool is_one = std::string(metrics).find('[') == std::string::npos;
    std::vector<FinishedTrial> trials;
    for (uint64_t number = 0; number < 60; ++number) {
      FinishedTrial trial;
      trial.number = number;
      std::vector<double> outcome = {static_cast<double>(number % 7)};
      if (!is_one) outcome.push_back(static_cast<double>(number % 5));
      outcome.push_back(number % 3 == 0 ? 2 : 0);
      REQUIRE(outcomes.Observe(outcome, trial));
      trials.push_back(trial);
    }
    std::vector<FinishedTrial> backwards(trials.rbegin(), trials.rend());
    outcomes.Order(trials);
    outcomes.Order(backwards);
    for (size_t i = 0; i < trials.size(); ++i) {
      CAPTURE(i, metrics);
      CHECK(trials[i].value == backwards[trials.size() - 1 - i].value);
    }
    if (is_one) CHECK(trials[1].value == trials[8].value);
  }
}

TEST_CASE("pareto: the hypervolume is that of the union of the boxes") {
  CHECK(Hypervolume({{0.5, 0.5}}, {1, 1}) == Approx(0.25));
  CHECK(Hypervolume({{0.5, 0.5}, {0.25, 0.75}}, {1, 1}) == Approx(0.25 + 0.0625));
  CHECK(Hypervolume({{2, 0}, {std::nan(""), 0}}, {1, 1}) == 0);
  CHECK(Hypervolume({{0.25}, {0.5}}, {1}) == 0.75);
  for (const size_t objectives : {2u, 3u, 4u}) {
    Rng rng(objectives, 0);
    std::vector<Values> points;
    for (int i = 0; i < 12; ++i) {
      Values point;
      for (size_t k = 0; k < objectives; ++k)
        point.push_back(static_cast<double>(rng.Below(20)) / 20);  // On edges of cells.
      points.push_back(point);
    }
    const Values reference(objectives, 1);
    CHECK(Hypervolume(points, reference) == Approx(CountedVolume(points, objectives)));
  }
}

TEST_CASE("outcomes: trials that keep the constraints come first, the others by their excess") {
  const Outcomes outcomes(OutcomeSpecOf(R"(,"metric":["loss","speed"],"mode":["min","max"],
                                    "constraints":{"memory":{"<=":8}},"search":"tpe")"));
  std::vector<FinishedTrial> trials;
  for (const auto& row :
       std::vector<std::vector<double>>{{1, 1, 4}, {2, 5, 8}, {2, 0, 8}, {0, 9, 10}, {0, 9, 9}}) {
    trials.push_back({trials.size(), {}, 0});
    REQUIRE(outcomes.Observe(row, trials.back()));
  }
  outcomes.Order(trials);
  std::vector<double> order;
  for (const FinishedTrial& trial : trials) order.push_back(trial.value);
  CHECK(order == std::vector<double>{0, 0, 1, 3, 2});
  CHECK(trials[1].values == Values{2, -5});
  CHECK(trials[3].violation == 2);
  FinishedTrial short_row;
  CHECK_FALSE(outcomes.Observe({1, 1}, short_row));
  CHECK_FALSE(outcomes.Observe({1, std::nan(""), 1}, short_row));
}

TEST_CASE("outcomes: models that know several outcomes propose each configuration") {
  const std::string search = GENERATE("tpe", "gp", "auto");
  INFO(search);
  const ExperimentSpec spec = *ParseExperimentSpec(*Json::Parse(
      R"({"experiment":"e","command":["x"],"num_samples":24,
          "space":{"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}},
          "metric":["a","b"],"mode":["min","max"],"constraints":{"c":{"<=":0.6}},
          "search":")" +
      search + "\"}"));
  AskTell asked(spec, 3);
  std::set<std::string> proposed;
  while (const auto trial = asked.Ask()) {
    CHECK(trial->fallback == "");
    proposed.insert(trial->params);
    const Json params = *Json::Parse(trial->params);
    const double x = params.GetDouble("x"), y = params.GetDouble("y");
    CHECK((x >= 0 && x <= 1 && y >= 0 && y <= 1));
    TrialResult result{TrialResult::Kind::kValue};
    result.outcome = {x + y, x - y, trial->number % 7 == 3 ? HUGE_VAL : y};
    REQUIRE(asked.Tell(trial->number, result).ok());
  }
  CHECK(proposed.size() == 24);
}

TEST_CASE("evaluated: known results come before the first trial, and are not run") {
  const std::string search = GENERATE("tpe", "gp", "cmaes", "auto");
  INFO(search);
  std::string known;
  for (int i = 0; i < 40; ++i) {
    const double x = i / 40.0, y = (i * 7 % 40) / 40.0;
    known += std::string(i == 0 ? "" : ",") + R"({"config":{"x":)" + std::to_string(x) +
             R"(,"y":)" + std::to_string(y) + R"(},"value":)" +
             std::to_string((x - 0.3) * (x - 0.3) + (y - 0.6) * (y - 0.6)) + "}";
  }
  const ExperimentSpec spec = *ParseExperimentSpec(*Json::Parse(
      R"({"experiment":"e","command":["x"],"num_samples":6,
          "space":{"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}},"metric":"loss","mode":"min",
          "search":{")" +
      search + R"(":{"evaluated":[)" + known + "]}}}"));
  const std::string normal = NormalText(spec);
  CHECK(NormalText(ReadJournalledExperiment({"", normal, kSpecFormat}).spec) == normal);
  AskTell asked(spec, 8);
  int near = 0;
  while (const auto trial = asked.Ask()) {
    const Json params = *Json::Parse(trial->params);
    const double x = params.GetDouble("x") - 0.3, y = params.GetDouble("y") - 0.6;
    if (std::abs(x) < 0.25 && std::abs(y) < 0.25) ++near;
    REQUIRE(asked.Tell(trial->number, {TrialResult::Kind::kValue, x * x + y * y}).ok());
  }
  CHECK(near >= 5);  // Even points: one in four or so.
}

TEST_CASE("objectives: what is written is checked, journalled and read back") {
  const ExperimentSpec spec = OutcomeSpecOf(R"(,"metric":["loss","speed"],"mode":["min","max"],
      "constraints":{"memory":{"<=":8}},"stop":{"loss":1,"speed":2},"search":"tpe")");
  CHECK(spec.metric == "loss");
  CHECK(spec.mode == Mode::kMin);
  CHECK(spec.stop[0].at_most);
  CHECK_FALSE(spec.stop[1].at_most);
  CHECK(spec.OutcomeKeys() == std::vector<std::string>{"loss", "speed", "memory"});
  const std::string normal = NormalText(spec);
  const auto read = ReadJournalledExperiment({"", normal, kSpecFormat});
  CHECK(read.warnings.empty());
  CHECK(NormalText(read.spec) == normal);
  CHECK(read.spec.objectives.size() == 2);
  CHECK(read.spec.constraints.size() == 1);
  CHECK(OutcomeSpecOf(R"(,"metric":["loss"],"mode":["min"])").objectives.empty());
  CHECK(OutcomeSpecOf(R"(,"metric":"loss","mode":"min")").OutcomeKeys().empty());

  CHECK(OutcomeErrorOf(R"(,"metric":["a","b"],"mode":"min")") ==
        "mode: must be a list with 'max' or 'min' for each metric");
  CHECK(OutcomeErrorOf(R"(,"metric":["a","b"],"mode":["min"])") == "mode: 2 metrics have 1 modes");
  CHECK(OutcomeErrorOf(R"(,"metric":["a","a"],"mode":["min","max"])") ==
        "metric/1: 'a' is there already");
  CHECK(OutcomeErrorOf(R"(,"metric":["a","b"],"mode":["min","mx"])") ==
        "mode/1: must be 'max' or 'min'");
  CHECK(OutcomeErrorOf(R"(,"metric":"a","mode":"mx")") == "mode: must be 'max' or 'min'");
  CHECK(OutcomeErrorOf(R"(,"metric":3)") == "metric: must be text, or a list of texts");
  CHECK(OutcomeErrorOf(R"(,"metric":["a","b"],"mode":["min","max"],"search":"cmaes")") ==
        "search: cmaes does not know several objectives");
  CHECK(OutcomeSpecOf(R"(,"metric":["a","b"],"mode":["min","max"],"search":"auto")").search.name ==
        "auto");
  CHECK(OutcomeErrorOf(R"(,"metric":["a","b"],"mode":["min","max"],"scheduler":"asha")") ==
        "scheduler: asha compares trials by one metric, and there are 2");
  CHECK(OutcomeErrorOf(R"(,"metric":"a","mode":"min","constraints":{"c":3})") ==
        "constraints/c: must be {\"<=\": number} or {\">=\": number}");
  CHECK(OutcomeErrorOf(R"(,"constraints":{"c":{"<=":1}})") == "constraints: belong to a metric");
  const auto with = [](const std::string& option) {
    return OutcomeErrorOf(R"(,"metric":"m","mode":"min","search":{"tpe":{)" + option + "}}");
  };
  CHECK(with(R"("evaluated":[{"config":{"x":1},"value":null}],"warm_start":[3])") == "");
  CHECK(with(R"("evaluated":[{"config":{"x":1}}])").starts_with("search/tpe/evaluated: each must"));
  CHECK(with(R"("warm_start":[0])") ==
        "search/tpe/warm_start: each must be the number of an experiment");
}
