// TPE as experiments name it: its table, the spaces that it searches, and its model.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <set>

#include "common/algorithms/registry.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/search/tpe_search.h"

using namespace rt;

namespace {

absl::StatusOr<ExperimentSpec> SpecOf(const std::string& space, const std::string& tpe = "{}",
                                      const std::string& mode = "min") {
  auto json =
      Json::Parse(R"({"experiment":"e","command":["x"],"metric":"loss","mode":")" + mode +
                  R"(","num_samples":50,"search":{"tpe":)" + tpe + R"(},"space":)" + space + "}");
  REQUIRE(json.ok());
  return ParseExperimentSpec(*json);
}

// A whole search without a cluster: the loss of each proposal, one at a time.
std::vector<double> Search(const ExperimentSpec& spec,
                           const std::function<double(const Json&)>& loss) {
  const auto model = SearcherOf(spec).MakeModel(spec, 7);
  std::vector<TrialResult> results;
  std::vector<double> losses;
  for (int i = 0; i < 50; ++i) {
    const absl::StatusOr<Json> params = model->Propose(results, {});
    REQUIRE(params.ok());
    model->AddTrial(*params);
    losses.push_back(loss(*params));
    results.push_back({TrialResult::Kind::kValue, losses.back()});
  }
  return losses;
}

double Mixed(const Json& params) {
  const double x = params.GetDouble("x") - 0.7, n = params.GetDouble("n") - 12;
  return x * x + n * n / 100 + (params.GetString("kind") == "b" ? 0 : 0.5);
}
double NegatedMixed(const Json& params) { return -Mixed(params); }

constexpr char kMixed[] =
    R"({"x":{"uniform":[0,1]},"n":{"randint":[1,20]},"kind":{"choice":["a","b","c"]},"fixed":3})";

}  // namespace

TEST_CASE("tpe search: every member of TpeOptions is an option with the same default") {
  const AlgorithmTable& table = TpeSearch().table();
  CHECK(table.needs_metric);
  const TpeOptions defaults = TpeOptionsFrom(DefaultsOf(table));
  CHECK(defaults.good_bandwidth == TpeOptions{}.good_bandwidth);
  CHECK(defaults.candidates == TpeOptions{}.candidates);
  CHECK(table.options.size() == sizeof(TpeOptions) / 8 + 3);  // All are numbers; and what is given.
  const auto spec = SpecOf(kMixed, R"({"candidates":5,"good_prior":0.5,"startup_trials":4})");
  REQUIRE(spec.ok());
  const TpeOptions given = TpeOptionsFrom(spec->search);
  CHECK(given.candidates == 5);
  CHECK(given.good_prior == 0.5);
  CHECK(given.startup_trials == 4);
  CHECK(MessageOf(SpecOf(kMixed, R"({"good_max":1,"good_min":2})").status()) ==
        "search/tpe/good_max: must not be below good_min");
  CHECK(MessageOf(SpecOf(kMixed, R"({"candidates":0})").status()) ==
        "search/tpe/candidates: must be a whole number between 1 and 10000");
}

TEST_CASE("tpe search: version 1, which journals may name, has no branches") {
  const char* const space = R"({"kind":{"choice":["a","b"]},"x":{"uniform":[0,1]},
      "b":{"if":{"kind":"b"},"y":{"uniform":[0,1]}}})";
  auto spec = SpecOf(space);
  REQUIRE(spec.ok());
  CHECK(spec->search.version == 3);
  CHECK(&SearcherOf(*spec) == &TpeSearch());
  const auto loss = [](const Json& params) {
    const Json* inside = params.Find("b");
    return params.GetDouble("x") + (inside == nullptr ? 0 : inside->GetDouble("y") - 0.4);
  };
  const std::vector<double> newest = Search(*spec, loss);
  // The spec as the first version wrote it: without the options that it did not have.
  spec->search.version = 1;
  spec->search.options = *Json::Parse(R"({"candidates":96})");
  CHECK(&SearcherOf(*spec) == &TpeSearchWithoutBranches());
  const std::vector<double> first = Search(*spec, loss);
  CHECK(first != newest);
  CHECK(TpeSearchWithoutBranches().table().options.size() + 3 ==
        TpeSearch().table().options.size());
  // Where a space has no conditions, the versions are one algorithm.
  auto plain = SpecOf(kMixed);
  const std::vector<double> second = Search(*plain, Mixed);
  plain->search.version = 1;
  CHECK(Search(*plain, Mixed) == second);
}

TEST_CASE("tpe search: versions 1 and 2, which journals may name, do not smooth noise") {
  auto spec = SpecOf(R"({"x":{"uniform":[0,1]}})");
  REQUIRE(spec.ok());
  CHECK(TpeOptionsFrom(spec->search).smoothing == TpeDefaults(kTpeVersion).smoothing);
  CHECK(TpeDefaults(kTpeVersion).smoothing > 0);
  Rng rng(1, 2);
  std::vector<double> noise(400);
  for (double& each : noise) each = rng.Normal();
  const auto loss = [&](const Json& params) {  // A function of the configuration, but a rough one.
    const double x = params.GetDouble("x");
    return x + noise[static_cast<size_t>(x * 1e6) % noise.size()];
  };
  const std::vector<double> newest = Search(*spec, loss);
  for (const uint32_t version : {2u, 1u}) {
    spec->search.version = version;
    spec->search.options = *Json::Parse(R"({"candidates":96})");
    CHECK(TpeOptionsFrom(spec->search).smoothing == 0);
    CHECK(&SearcherOf(*spec) ==
          (version == 2 ? &TpeSearchWithoutSmoothing() : &TpeSearchWithoutBranches()));
    CHECK(Search(*spec, loss) != newest);
  }
}

TEST_CASE("tpe search: a grid is refused, with its place and what to write") {
  const absl::Status status = SpecOf(R"({"a":{"x":{"grid":[1,2]}}})").status();
  CHECK(MessageOf(status) == "space/a/x: tpe does not search a grid");
  CHECK(HintOf(status) == "write choice, or use basic");
}

TEST_CASE("tpe search: real, integer and categorical parameters, minimised and maximised") {
  const auto least = SpecOf(kMixed);
  REQUIRE(least.ok());
  const std::vector<double> losses = Search(*least, Mixed);
  CHECK(*std::min_element(losses.begin(), losses.end()) < 0.02);
  const auto most = SpecOf(kMixed, "{}", "max");
  REQUIRE(most.ok());
  std::vector<double> negated = Search(*most, NegatedMixed);
  for (double& each : negated) each = -each;
  CHECK(negated == losses);
}

TEST_CASE("tpe search: given points come first, and a point outside the space is no hindrance") {
  const char* const points = R"([{"x":0.25},{"x":7,"kind":"unheard of"}])";
  CHECK_FALSE(SpecOf(kMixed, std::string(R"({"points":)") + points + "}").ok());
  auto spec = SpecOf(kMixed, R"({"points":[{"x":0.25}]})");
  REQUIRE(spec.ok());
  spec->search.options.Set("points", *Json::Parse(points));  // Earlier releases took them.
  const auto model = SearcherOf(*spec).MakeModel(*spec, 7);
  std::vector<TrialResult> results;
  std::vector<Json> proposed;
  for (int i = 0; i < 30; ++i) {
    const absl::StatusOr<Json> params = model->Propose(results, {});
    REQUIRE(params.ok());
    proposed.push_back(*params);
    model->AddTrial(*params);
    results.push_back({TrialResult::Kind::kValue, static_cast<double>(i % 7)});
  }
  CHECK(proposed[0].GetDouble("x") == 0.25);
  CHECK(proposed[0].Find("n") != nullptr);
  CHECK(proposed[1].GetString("kind") == "unheard of");
  CHECK(proposed[0] == *SearcherOf(*spec).Propose(*spec, 7, 0));
  for (size_t i = 2; i < proposed.size(); ++i) CHECK(proposed[i].GetDouble("x") <= 1);
}

TEST_CASE("tpe search: the largest and smallest ranges that a spec may have are drawn from") {
  for (const char* domain :
       {R"({"uniform":[-1e300,1e300]})", R"({"loguniform":[1e-300,1e300]})",
        R"({"randn":[1e300,1e300]})", R"({"quniform":[0,9e15,1]})",
        R"({"qloguniform":[1e-300,1e-290,1e-300]})", R"({"qrandn":[0,1e14,1]})"}) {
    INFO(domain);
    const auto spec = SpecOf(std::string(R"({"x":)") + domain + "}", R"({"startup_trials":5})");
    REQUIRE(spec.ok());
    const auto model = SearcherOf(*spec).MakeModel(*spec, 7);
    std::vector<TrialResult> results;
    std::set<double> values;
    for (int i = 0; i < 20; ++i) {
      const absl::StatusOr<Json> params = model->Propose(results, {});
      REQUIRE(params.ok());
      REQUIRE(std::isfinite(params->Find("x")->AsDouble()));
      values.insert(params->Find("x")->AsDouble());
      model->AddTrial(*params);
      results.push_back({TrialResult::Kind::kValue, static_cast<double>(i % 7)});
    }
    CHECK(values.size() > 10);
  }
}

TEST_CASE("tpe search: bad and open trials change the next proposal, unknown ones do not") {
  const auto spec = SpecOf(R"({"x":{"uniform":[0,1]}})", R"({"startup_trials":4})");
  REQUIRE(spec.ok());
  using Kind = TrialResult::Kind;
  const auto next = [&](Kind last) {
    const auto model = SearcherOf(*spec).MakeModel(*spec, 7);
    std::vector<TrialResult> results;
    for (int i = 0; i < 9; ++i) {
      model->AddTrial(Json::MakeObject({{"x", (i + 0.5) / 10}}));
      results.push_back(i == 8 ? TrialResult{last, 0.0}
                               : TrialResult{Kind::kValue, std::abs(i - 5.0)});
    }
    return model->Propose(results, {})->Dump();
  };
  CHECK(next(Kind::kUnknown) == next(Kind::kUnknown));
  CHECK(next(Kind::kValue) != next(Kind::kUnknown));
}

TEST_CASE("tpe search: it gives up when its time is over") {
  const auto spec = SpecOf(kMixed, R"({"startup_trials":2})");
  REQUIRE(spec.ok());
  const auto model = SearcherOf(*spec).MakeModel(*spec, 7);
  std::vector<TrialResult> results;
  for (int i = 0; i < 9; ++i) {
    model->AddTrial(*model->Propose(results, {}));
    results.push_back({TrialResult::Kind::kValue, static_cast<double>(i)});
  }
  CHECK(absl::IsDeadlineExceeded(model->Propose(results, [] { return true; }).status()));
  const Json before = *model->Propose(results, {});
  model->AddTrial(before);
  model->ForgetFrom(9);
  CHECK(*model->Propose(results, {}) == before);
}
