// CMA-ES as experiments name it: its table, the spaces that it searches, and its model.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "common/algorithms/registry.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/search/cma_search.h"
#include "tests/unit/lived_model.h"

using namespace rt;

namespace {

absl::StatusOr<ExperimentSpec> EvolvedSpec(const std::string& space, const std::string& cma = "{}",
                                           const std::string& mode = "min") {
  auto json =
      Json::Parse(R"({"experiment":"e","command":["x"],"metric":"loss","mode":")" + mode +
                  R"(","num_samples":50,"search":{"cmaes":)" + cma + R"(},"space":)" + space + "}");
  REQUIRE(json.ok());
  return ParseExperimentSpec(*json);
}

double NegatedLoss(const Json& params) { return -MixedLoss(params); }

// A whole search without a cluster: the loss of each proposal, one at a time.
std::vector<double> Evolve(const ExperimentSpec& spec, double (*loss)(const Json& params)) {
  const auto model = SearcherOf(spec).MakeModel(spec, 7);
  std::vector<TrialResult> results;
  std::vector<double> losses;
  for (int i = 0; i < 60; ++i) {
    const absl::StatusOr<Json> params = model->Propose(results, {});
    REQUIRE(params.ok());
    model->AddTrial(*params);
    losses.push_back(loss(*params));
    results.push_back({TrialResult::Kind::kValue, losses.back(), i});
  }
  return losses;
}

}  // namespace

TEST_CASE("cma search: the options have the defaults of CmaOptions, and reach the model") {
  const AlgorithmTable& table = CmaSearch().table();
  CHECK(table.needs_metric);
  const CmaOptions defaults = CmaOptionsFrom(DefaultsOf(table));
  CHECK(defaults.sigma == CmaOptions{}.sigma);
  CHECK(defaults.model_trials == CmaOptions{}.model_trials);
  CHECK(defaults.begins_in_middle);
  const auto spread = EvolvedSpec(kMixedSpace, R"({"middle_first":false})");
  REQUIRE(spread.ok());
  CHECK_FALSE(CmaOptionsFrom(spread->search).begins_in_middle);
  const auto spec = EvolvedSpec(
      kMixedSpace, R"({"sigma0":0.2,"population_size":9,"stall_trials":5,"startup_trials":4})");
  REQUIRE(spec.ok());
  const CmaOptions given = CmaOptionsFrom(spec->search);
  CHECK(given.sigma == 0.2);
  CHECK(given.population == 9);
  CHECK(given.stall_trials == 5);
  CHECK(given.startup_trials == 4);
  CHECK(MessageOf(EvolvedSpec(kMixedSpace, R"({"sigma0":0})").status()) ==
        "search/cmaes/sigma0: must be above 0 and at most 1");
  CHECK(EvolvedSpec(kMixedSpace, R"({"population_size":4})").ok());
  const absl::Status few = EvolvedSpec(kMixedSpace, R"({"population_size":3})").status();
  CHECK(MessageOf(few) == "search/cmaes/population_size: must be 0 or at least 4");
  CHECK(HintOf(few) == "a generation of fewer points has no better half to learn from");
}

TEST_CASE("cma search: spaces that it cannot search are refused, with what to use instead") {
  absl::Status status = EvolvedSpec(R"({"a":{"x":{"grid":[1,2]}}})").status();
  CHECK(MessageOf(status) == "space/a/x: cmaes does not search a grid");
  CHECK(HintOf(status) == "write choice, or use basic");
  status = EvolvedSpec(R"({"a":{"choice":["p","q"]}})").status();
  CHECK(MessageOf(status) == "space: cmaes needs a parameter that is a number with a range");
  CHECK(HintOf(status) == "use tpe");
  std::string large = "{";
  for (int i = 0; i <= static_cast<int>(kCmaAxesMax); ++i)
    large += (i > 0 ? ",\"x" : "\"x") + std::to_string(i) + R"(":{"uniform":[0,1]})";
  status = EvolvedSpec(large + "}").status();
  CHECK(MessageOf(status) == "space: cmaes searches at most 100 parameters");
  CHECK(HintOf(status) == "use tpe");
}

TEST_CASE("cma search: real, integer and categorical parameters, minimised and maximised") {
  const auto least = EvolvedSpec(kMixedSpace);
  REQUIRE(least.ok());
  const std::vector<double> losses = Evolve(*least, MixedLoss);
  CHECK(*std::min_element(losses.begin(), losses.end()) < 0.02);
  const auto most = EvolvedSpec(kMixedSpace, "{}", "max");
  REQUIRE(most.ok());
  std::vector<double> negated = Evolve(*most, NegatedLoss);
  for (double& each : negated) each = -each;
  CHECK(negated == losses);
}

TEST_CASE("cma search: given points come first, and a point outside the space is no hindrance") {
  const char* const points = R"([{"x":0.25},{"x":7,"kind":"unheard of"}])";
  CHECK_FALSE(EvolvedSpec(kMixedSpace, std::string(R"({"points":)") + points + "}").ok());
  auto spec = EvolvedSpec(kMixedSpace, R"({"points":[{"x":0.25}]})");
  REQUIRE(spec.ok());
  spec->search.options.Set("points", *Json::Parse(points));  // Earlier releases took them.
  const auto model = SearcherOf(*spec).MakeModel(*spec, 7);
  std::vector<TrialResult> results;
  std::vector<Json> proposed;
  for (int i = 0; i < 20; ++i) {
    const absl::StatusOr<Json> params = model->Propose(results, {});
    REQUIRE(params.ok());
    proposed.push_back(*params);
    model->AddTrial(*params);
    results.push_back({TrialResult::Kind::kValue, static_cast<double>(i % 7), i});
  }
  CHECK(proposed[0].GetDouble("x") == 0.25);
  CHECK(proposed[1].GetString("kind") == "unheard of");
  CHECK(proposed[0] == *SearcherOf(*spec).Propose(*spec, 7, 0));
  for (size_t i = 2; i < proposed.size(); ++i) CHECK(proposed[i].GetDouble("x") <= 1);
}

TEST_CASE("cma search: the first trial is the middle, and many parameters are searched round it") {
  std::string wide = "{";
  for (int i = 0; i < 15; ++i)
    wide += (i > 0 ? ",\"x" : "\"x") + std::to_string(10 + i) + R"(":{"uniform":[-3,5]})";
  for (const std::string& space : {std::string(kMixedSpace), wide + "}"}) {
    const auto spec = EvolvedSpec(space);
    REQUIRE(spec.ok());
    const absl::StatusOr<Encoding> encoding = Encoding::Of(spec->space);
    const auto model = SearcherOf(*spec).MakeModel(*spec, 7);
    std::vector<TrialResult> results;
    for (int i = 0; i < 12; ++i) {
      const absl::StatusOr<Json> params = model->Propose(results, {});
      REQUIRE(params.ok());
      const std::optional<Point> point = encoding->Encode(*params);
      REQUIRE(point.has_value());
      double farthest = 0;
      for (size_t k = 0; k < point->size(); ++k) {
        const Axis& axis = encoding->axes()[k];
        if (axis.kind() == Axis::Kind::kCategories) continue;
        farthest = std::max(farthest, std::abs((*point)[k] - axis.Snap(0.5)));
      }
      CHECK((farthest < 1e-6) == (i == 0));
      model->AddTrial(*params);
      results.push_back({TrialResult::Kind::kValue, static_cast<double>(i % 5), i});
    }
  }
}

TEST_CASE("cma search: with many parameters a good point that is given is where it begins") {
  std::string wide = "{", corner = "{";
  for (int i = 0; i < 15; ++i) {
    wide += (i > 0 ? ",\"x" : "\"x") + std::to_string(10 + i) + R"(":{"uniform":[0,1]})";
    corner += (i > 0 ? ",\"x" : "\"x") + std::to_string(10 + i) + R"(":0.05)";
  }
  const auto distance = [](const Json& params) {
    double sum = 0;
    for (const auto& [name, value] : params.object())
      sum += (value.AsDouble() - 0.05) * (value.AsDouble() - 0.05);
    return sum;
  };
  const auto spec = EvolvedSpec(wide + "}", R"({"points":[)" + corner + "}]}");
  REQUIRE(spec.ok());
  const std::vector<double> losses = Evolve(*spec, distance);
  CHECK(losses.front() == 0);
  // The middle of the box is at 3.04; the trials after the startup are near the corner.
  const std::vector<double> later(losses.begin() + 12, losses.begin() + 24);
  CHECK(*std::max_element(later.begin(), later.end()) < 1);
}

TEST_CASE("cma search: version 1, which journals may name, begins with Sobol points") {
  auto spec = EvolvedSpec(kMixedSpace);
  REQUIRE(spec.ok());
  CHECK(spec->search.version == 2);
  spec->search = {
      .name = "cmaes", .version = 1, .options = DefaultsOf(CmaSearchFromSobol().table()).options};
  CHECK(SearcherOf(*spec).table().version == 1);
  CHECK(CmaSearchFromSobol().table().options.size() + 1 == CmaSearch().table().options.size());
  const auto model = SearcherOf(*spec).MakeModel(*spec, 7);
  const absl::StatusOr<Json> first = model->Propose({}, {});
  REQUIRE(first.ok());
  CHECK(*first == *SearcherOf(*spec).Propose(*spec, 7, 0));
}

TEST_CASE("cma search: the largest and smallest ranges that a spec may have are drawn from") {
  for (const char* domain :
       {R"({"uniform":[-1e300,1e300]})", R"({"loguniform":[1e-300,1e300]})",
        R"({"randn":[1e300,1e300]})", R"({"quniform":[0,9e15,1]})",
        R"({"qloguniform":[1e-300,1e-290,1e-300]})", R"({"qrandn":[0,1e14,1]})"}) {
    INFO(domain);
    const auto spec =
        EvolvedSpec(std::string(R"({"x":)") + domain + "}", R"({"startup_trials":5})");
    REQUIRE(spec.ok());
    const auto model = SearcherOf(*spec).MakeModel(*spec, 7);
    std::vector<TrialResult> results;
    for (int i = 0; i < 20; ++i) {
      const absl::StatusOr<Json> params = model->Propose(results, {});
      REQUIRE(params.ok());
      REQUIRE(std::isfinite(params->Find("x")->AsDouble()));
      model->AddTrial(*params);
      results.push_back({TrialResult::Kind::kValue, (i % 7) * 1e307, i});
    }
  }
}

TEST_CASE(
    "cma search: configurations that were taken back are forgotten, and unknown ends left out") {
  const auto spec = EvolvedSpec(R"({"x":{"uniform":[0,1]}})");
  REQUIRE(spec.ok());
  using Kind = TrialResult::Kind;
  const auto next = [&](Kind last, bool takes_back) {
    const auto model = SearcherOf(*spec).MakeModel(*spec, 7);
    std::vector<TrialResult> results;
    for (int i = 0; i < 9; ++i) {
      model->AddTrial(Json::MakeObject({{"x", (i + 0.5) / 10}}));
      results.push_back(i == 8 ? TrialResult{last, 0, i}
                               : TrialResult{Kind::kValue, std::abs(i - 5.0), i});
    }
    if (takes_back) {
      model->AddTrial(Json::MakeObject({{"x", 0.99}}));
      REQUIRE(model->Propose({10, TrialResult{Kind::kValue, 3, 1}}, {}).ok());
      model->ForgetFrom(9);
    }
    return model->Propose(results, {})->Dump();
  };
  CHECK(next(Kind::kUnknown, false) != next(Kind::kValue, false));
  CHECK(next(Kind::kValue, true) == next(Kind::kValue, false));
}

TEST_CASE("cma search: a model that lived through a search proposes what a new one does") {
  const auto spec = EvolvedSpec(kMixedSpace, R"({"startup_trials":4})");
  REQUIRE(spec.ok());
  for (uint64_t seed = 0; seed < 5; ++seed) {
    INFO(seed);
    CheckLivedModel(*spec, seed, {});
  }
}
