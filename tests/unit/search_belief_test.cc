// What search models say that they expect.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "common/algorithms/registry.h"
#include "common/search/value_warp.h"

using namespace rt;

namespace {

ExperimentSpec BelievingSpec(const std::string& search, const std::string& mode = "min",
                             const std::string& more = "") {
  const auto json = Json::Parse(R"({"experiment":"e","command":["x"],"metric":"loss","mode":")" +
                                mode + R"(","search":)" + search + more +
                                R"(,"space":{"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}}})");
  REQUIRE(json.ok());
  const auto spec = ParseExperimentSpec(*json);
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  return *spec;
}

double LossOf(const Json& params) {
  const double x = params.GetDouble("x") - 0.3, y = params.GetDouble("y") - 0.6;
  return 5 + 10 * (x * x + y * y);
}

struct Believing {
  std::vector<TrialResult> results;
  std::vector<double> losses;
  std::unique_ptr<SearchModel> model;

  uint64_t best() const {
    return static_cast<uint64_t>(std::min_element(losses.begin(), losses.end()) - losses.begin());
  }
};

// A search of `trials`, one after the other, and one more proposal. `sign` of what is reported.
Believing Search(const ExperimentSpec& spec, size_t trials, double sign = 1) {
  Believing search{.results = {}, .losses = {}, .model = SearcherOf(spec).MakeModel(spec, 7)};
  for (size_t i = 0; i < trials; ++i) {
    const Json params = *search.model->Propose(search.results, {});
    search.model->AddTrial(params);
    search.losses.push_back(LossOf(params));
    search.results.push_back(
        {TrialResult::Kind::kValue, sign * search.losses.back(), static_cast<int64_t>(i)});
  }
  REQUIRE(search.model->Propose(search.results, {}).ok());
  return search;
}

void CheckAbout(const Expectation& expected, double value) {
  CHECK(expected.low <= expected.value);
  CHECK(expected.value <= expected.high);
  CHECK(expected.value == Approx(value).epsilon(0.02));
}

}  // namespace

TEST_CASE("beliefs: a prediction among warped values is told in the unit of the values") {
  const std::vector<double> values = {3, 1, 2, 10, 1e6, -4, 2.5};
  for (const double scale : {kNoScale, 2.3, 0.0, -2.3}) {
    std::vector<double> warped;
    WarpValues(scale, values, warped);
    for (size_t i = 0; i < values.size(); ++i) {
      const Expectation exact = Unwarp(scale, values, {warped[i], 0});
      CHECK(exact.value == Approx(values[i]).margin(1e-6));
      CHECK(exact.low == exact.high);
      const Expectation wide = Unwarp(scale, values, {warped[i], 0.01});
      CHECK(wide.low < values[i]);
      CHECK(wide.high > values[i]);
    }
  }
}

TEST_CASE("beliefs: a process expects of the best trial about what it had, whatever the mode") {
  for (const char* name : {"gp", "auto"}) {
    const std::string search = "\"" + std::string(name) + "\"";
    const Believing found = Search(BelievingSpec(search), 16);
    const std::optional<ModelBelief> belief = found.model->belief();
    REQUIRE(belief.has_value());
    CHECK(belief->best == found.best());
    CHECK(belief->next == 16);
    CheckAbout(belief->of_best, found.losses[found.best()]);
    CHECK(belief->of_next.value < 6);

    const Believing raised = Search(BelievingSpec(search, "max"), 16, -1);
    const std::optional<ModelBelief> negated = raised.model->belief();
    REQUIRE(negated.has_value());
    CHECK(negated->best == belief->best);
    CHECK(negated->of_best.value == -belief->of_best.value);
    CHECK(negated->of_best.low == -belief->of_best.high);
    CHECK(negated->of_next.high == -belief->of_next.low);
  }
}

TEST_CASE("beliefs: a known result is no trial, and does not move the numbers of trials") {
  const std::string worse = R"({"config":{"x":0.9,"y":0.1},"value":40})";
  const std::string best = R"({"config":{"x":0.31,"y":0.6},"value":4.999})";
  const Believing found = Search(BelievingSpec(R"({"gp":{"evaluated":[)" + worse + "]}}"), 16);
  REQUIRE(found.model->belief().has_value());
  CHECK(found.model->belief()->best == found.best());
  const Believing given = Search(BelievingSpec(R"({"gp":{"evaluated":[)" + best + "]}}"), 9);
  REQUIRE(given.losses[given.best()] > 4.999);
  REQUIRE(given.model->belief().has_value());
  CHECK(!given.model->belief()->best.has_value());
  CheckAbout(given.model->belief()->of_best, 4.999);
}

TEST_CASE("beliefs: where nothing is expected, nothing is said") {
  CHECK(!Search(BelievingSpec(R"("gp")"), 2).model->belief().has_value());  // Sobol points.
  CHECK(!Search(BelievingSpec(R"("tpe")"), 16).model->belief().has_value());
}

TEST_CASE("beliefs: with rungs, the values are those of the highest one") {
  const ExperimentSpec spec =
      BelievingSpec(R"({"mobster":{"random_fraction":0,"even_weight":0}})", "min",
                    R"(,"scheduler":{"asha":{"max_t":9,"reduction_factor":3}})");
  const auto model = SearcherOf(spec).MakeModel(spec, 7);
  std::vector<TrialResult> results;
  for (uint64_t i = 0; i < 12; ++i) {
    const Json params = *SearcherOf(spec).Propose(spec, 1, i);
    model->AddTrial(params);
    TrialResult& result = results.emplace_back();
    result.rungs = {{1, 50 + LossOf(params)}};
    if (i < 5) result.rungs.push_back({3, LossOf(params)});
  }
  REQUIRE(model->Propose(results, {}).ok());
  const std::optional<ModelBelief> belief = model->belief();
  REQUIRE(belief.has_value());
  REQUIRE(belief->best.has_value());
  CHECK(*belief->best < 5);
  CHECK(belief->of_best.value < 30);
  CHECK(belief->of_next.value < 30);
}
