// BOHB's model as experiments name it: its table, and what it is told.
#include <catch2/catch.hpp>

#include "common/algorithms/registry.h"
#include "common/base/status.h"
#include "common/search/bohb_search.h"

using namespace rt;

namespace {

absl::StatusOr<ExperimentSpec> BohbSpec(const std::string& bohb, const std::string& mode = "min",
                                        const std::string& space = R"({"x":{"uniform":[0,1]}})") {
  const auto json =
      Json::Parse(R"({"experiment":"e","command":["x"],"metric":"loss","mode":")" + mode +
                  R"(","num_samples":50,"search":{"bohb":)" + bohb + R"(},"space":)" + space + "}");
  REQUIRE(json.ok());
  return ParseExperimentSpec(*json);
}

// The proposal after trials that have reached rung 1 and rung 3 with these values, and run on.
double NextX(const ExperimentSpec& spec, double sign) {
  const auto model = SearcherOf(spec).MakeModel(spec, 7);
  std::vector<TrialResult> results;
  for (int i = 0; i < 30; ++i) {
    const double x = (i + 0.5) / 30;
    model->AddTrial(Json::MakeObject({{"x", x}}));
    results.push_back({});
    results.back().rungs = {{1, sign * x}, {3, sign * std::abs(x - 0.75)}};
  }
  return model->Propose(results, {})->GetDouble("x");
}

}  // namespace

TEST_CASE("bohb search: the options have the defaults of BohbOptions, and reach the model") {
  const AlgorithmTable& table = BohbSearch().table();
  CHECK(table.needs_metric);
  CHECK(table.reads_rungs);
  CHECK(table.options.size() == sizeof(BohbOptions) / 8 + 3);
  const BohbOptions defaults = BohbOptionsFrom(DefaultsOf(table).options);
  CHECK(defaults.random_fraction == BohbOptions{}.random_fraction);
  CHECK(defaults.candidates == BohbOptions{}.candidates);
  const auto spec = BohbSpec(R"({"random_fraction":0,"good_fraction":0.5,"rows_min":4,
                                 "candidates":9})");
  REQUIRE(spec.ok());
  const BohbOptions given = BohbOptionsFrom(spec->search.options);
  CHECK(given.random_fraction == 0);
  CHECK(given.good_fraction == 0.5);
  CHECK(given.rows_min == 4);
  CHECK(given.candidates == 9);
  CHECK(MessageOf(BohbSpec(R"({"candidates":0})").status()) ==
        "search/bohb/candidates: must be a whole number between 1 and 10000");
  CHECK(MessageOf(BohbSpec("{}", "min", R"({"x":{"grid":[1,2]}})").status()) ==
        "space/x: bohb does not search a grid");
}

TEST_CASE("bohb search: it learns from open trials at the highest rung, minimised and maximised") {
  const auto least = BohbSpec(R"({"random_fraction":0})");
  const auto most = BohbSpec(R"({"random_fraction":0})", "max");
  REQUIRE((least.ok() && most.ok()));
  const double x = NextX(*least, 1);
  CHECK(std::abs(x - 0.75) < 0.25);
  CHECK(NextX(*most, -1) == x);
}

TEST_CASE("bohb search: known results are of trials that were trained to their ends") {
  std::string known;
  for (int i = 0; i < 20; ++i)
    known += std::string(i == 0 ? "" : ",") + R"({"config":{"x":)" + Json((i + 0.5) / 20).Dump() +
             R"(},"value":)" + Json(std::abs((i + 0.5) / 20 - 0.1)).Dump() + "}";
  const auto spec = BohbSpec(R"({"random_fraction":0,"evaluated":[)" + known + "]}");
  REQUIRE(spec.ok());
  CHECK(NextX(*spec, 1) < 0.4);
}
