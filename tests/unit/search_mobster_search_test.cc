// MOBSTER's model as experiments name it: its table, and what it is told.
#include <catch2/catch.hpp>

#include "common/algorithms/registry.h"
#include "common/base/status.h"
#include "common/search/mobster_search.h"

using namespace rt;

namespace {

const char* const kMobsterOnly = R"({"random_fraction":0,"even_weight":0})";

absl::StatusOr<ExperimentSpec> MobsterSpec(
    const std::string& mobster, const std::string& mode = "min",
    const std::string& space = R"({"x":{"uniform":[0,1]}})") {
  const auto json = Json::Parse(R"({"experiment":"e","command":["x"],"metric":"loss","mode":")" +
                                mode + R"(","num_samples":50,"search":{"mobster":)" + mobster +
                                R"(},"space":)" + space + "}");
  REQUIRE(json.ok());
  return ParseExperimentSpec(*json);
}

// The proposal after trials that have reached rung 1 and rung 3 with these values, and run on.
double NextOf(const ExperimentSpec& spec, double sign) {
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

TEST_CASE("mobster search: the options have the defaults of MobsterOptions, and reach the model") {
  const AlgorithmTable& table = MobsterSearch().table();
  CHECK(table.needs_metric);
  CHECK(table.reads_rungs);
  CHECK(table.options.size() == sizeof(MobsterOptions) / 8 + 2);  // A version chooses one of them.
  const MobsterOptions defaults = MobsterOptionsFrom(DefaultsOf(table));
  CHECK(defaults.random_fraction == MobsterOptions{}.random_fraction);
  CHECK(defaults.even_weight == MobsterOptions{}.even_weight);
  CHECK(defaults.history_max == MobsterOptions{}.history_max);
  const auto spec = MobsterSpec(R"({"random_fraction":0.5,"even_weight":3,"startup_trials":9,
                                    "rows_min":4,"history_max":50})");
  REQUIRE(spec.ok());
  const MobsterOptions given = MobsterOptionsFrom(spec->search);
  CHECK(given.random_fraction == 0.5);
  CHECK(given.even_weight == 3);
  CHECK(given.startup_trials == 9);
  CHECK(given.rows_min == 4);
  CHECK(given.history_max == 50);
  CHECK(given.stretches_best);
  AlgorithmSpec earlier = spec->search;
  earlier.version = 1;
  CHECK_FALSE(MobsterOptionsFrom(earlier).stretches_best);
  CHECK(MobsterSearchUnstretched().table().options.size() == table.options.size());
  CHECK(MessageOf(MobsterSpec(R"({"history_max":5})").status()) ==
        "search/mobster/history_max: must be a whole number between 20 and 500");
}

TEST_CASE("mobster search: it refuses a grid, and more than 100 parameters") {
  CHECK(MessageOf(MobsterSpec("{}", "min", R"({"x":{"grid":[1,2]}})").status()) ==
        "space/x: mobster does not search a grid");
  std::string wide = "{";
  for (int i = 0; i <= 100; ++i)
    wide += (i == 0 ? "\"x" : ",\"x") + std::to_string(i) + R"(":{"uniform":[0,1]})";
  CHECK(MessageOf(MobsterSpec("{}", "min", wide + "}").status()) ==
        "space: mobster searches at most 100 parameters");
}

TEST_CASE("mobster search: it learns from open trials at all rungs, minimised and maximised") {
  const auto least = MobsterSpec(kMobsterOnly), most = MobsterSpec(kMobsterOnly, "max");
  REQUIRE((least.ok() && most.ok()));
  const double x = NextOf(*least, 1);
  CHECK(std::abs(x - 0.75) < 0.1);
  CHECK(NextOf(*most, -1) == x);
}

TEST_CASE("mobster search: known results are of trials that were trained to their ends") {
  std::string known;
  for (int i = 0; i < 20; ++i)
    known += std::string(i == 0 ? "" : ",") + R"({"config":{"x":)" + Json((i + 0.5) / 20).Dump() +
             R"(},"value":)" + Json(std::abs((i + 0.5) / 20 - 0.1)).Dump() + "}";
  const auto spec =
      MobsterSpec(R"({"random_fraction":0,"even_weight":0,"evaluated":[)" + known + "]}");
  REQUIRE(spec.ok());
  CHECK(std::abs(NextOf(*spec, 1) - 0.1) < 0.1);
}
