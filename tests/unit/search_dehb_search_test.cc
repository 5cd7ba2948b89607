// DEHB as experiments name it: its table, and what it is told.
#include <catch2/catch.hpp>

#include "common/algorithms/registry.h"
#include "common/base/status.h"
#include "common/search/dehb_search.h"

using namespace rt;

namespace {

absl::StatusOr<ExperimentSpec> DehbSpec(const std::string& dehb, const std::string& mode = "min",
                                        const std::string& space = R"({"x":{"uniform":[0,1]}})") {
  const auto json =
      Json::Parse(R"({"experiment":"e","command":["x"],"metric":"loss","mode":")" + mode +
                  R"(","num_samples":50,"search":{"dehb":)" + dehb + R"(},"space":)" + space + "}");
  REQUIRE(json.ok());
  return ParseExperimentSpec(*json);
}

// The mean of the proposals after open trials with these values at rung 1.
double MeanOfNext(const ExperimentSpec& spec, double sign) {
  const auto model = SearcherOf(spec).MakeModel(spec, 7);
  std::vector<TrialResult> results;
  double sum = 0;
  for (int i = 0; i < 60; ++i) {
    const double x = (i * 37 % 60 + 0.5) / 60;
    if (i >= 40) sum += model->Propose(results, {})->GetDouble("x") / 20;
    model->AddTrial(Json::MakeObject({{"x", x}}));
    results.push_back({});
    results.back().rungs = {{1, sign * std::abs(x - 0.75)}};
  }
  return sum;
}

}  // namespace

TEST_CASE("dehb search: the options have the defaults of DehbOptions, and reach the model") {
  const AlgorithmTable& table = DehbSearch().table();
  CHECK(table.needs_metric);
  CHECK(table.reads_rungs);
  CHECK(table.options.size() == sizeof(DehbOptions) / 8 + 3);
  const DehbOptions defaults = DehbOptionsFrom(DefaultsOf(table).options);
  CHECK(defaults.weight == DehbOptions{}.weight);
  CHECK(defaults.population_size == DehbOptions{}.population_size);
  const auto spec = DehbSpec(R"({"weight":0.8,"crossover":0.9,"population_size":9})");
  REQUIRE(spec.ok());
  const DehbOptions given = DehbOptionsFrom(spec->search.options);
  CHECK(given.weight == 0.8);
  CHECK(given.crossover == 0.9);
  CHECK(given.population_size == 9);
  CHECK(MessageOf(DehbSpec(R"({"population_size":3})").status()) ==
        "search/dehb/population_size: must be a whole number between 4 and 1000");
  CHECK(MessageOf(DehbSpec("{}", "min", R"({"x":{"grid":[1,2]}})").status()) ==
        "space/x: dehb does not search a grid");
}

TEST_CASE("dehb search: it learns from open trials, minimised and maximised") {
  const auto least = DehbSpec("{}"), most = DehbSpec("{}", "max");
  REQUIRE((least.ok() && most.ok()));
  const double mean = MeanOfNext(*least, 1);
  CHECK(std::abs(mean - 0.75) < 0.15);
  CHECK(MeanOfNext(*most, -1) == mean);
}
