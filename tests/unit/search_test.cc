#include <catch2/catch.hpp>

#include <cmath>
#include <map>

#include "head/search/basic.h"

using namespace rt;

namespace {
ExperimentSpec SpecOf(const std::string& space, int samples) {
  auto spec = ParseExperimentSpec(*Json::Parse(
      R"({"experiment":"e","command":["x"],"num_samples":)" + std::to_string(samples) +
      R"(,"space":)" + space + "}"));
  REQUIRE(spec.ok());
  return *spec;
}
}  // namespace

TEST_CASE("grid: the first variable by path varies fastest, the whole repeats per sample") {
  ExperimentSpec spec = SpecOf(R"({"b":{"grid":[1,2]},"a":{"grid":["x","y","z"]},"c":7})", 2);
  std::vector<std::string> seen;
  for (uint64_t n = 0; auto params = SuggestBasic(spec, 1, n); ++n)
    seen.push_back(params->GetString("a") + std::to_string(params->GetInt("b")));
  CHECK(seen == std::vector<std::string>{"x1", "y1", "z1", "x2", "y2", "z2",
                                         "x1", "y1", "z1", "x2", "y2", "z2"});
  CHECK(SuggestBasic(spec, 1, 0)->GetInt("c") == 7);
}

TEST_CASE("random: a trial's draw depends on seed and number only") {
  ExperimentSpec spec =
      SpecOf(R"({"lr":{"loguniform":[1e-4,0.1]},"n":{"u":{"randint":[0,10]}}})", 9);
  CHECK(SuggestBasic(spec, 5, 3)->Dump() == SuggestBasic(spec, 5, 3)->Dump());
  CHECK(SuggestBasic(spec, 5, 3)->Dump() != SuggestBasic(spec, 6, 3)->Dump());
  CHECK(!SuggestBasic(spec, 5, 9));
}

TEST_CASE("random: every primitive keeps its bounds and its quantum") {
  auto draws = [](const char* domain) {
    ExperimentSpec spec = SpecOf(std::string(R"({"x":)") + domain + "}", 4000);
    std::map<double, int> counts;
    for (uint64_t n = 0; n < 4000; ++n) ++counts[SuggestBasic(spec, 1, n)->Find("x")->AsDouble()];
    return counts;
  };
  auto within = [](const std::map<double, int>& counts, double low, double high) {
    CHECK(counts.begin()->first >= low);
    CHECK(counts.rbegin()->first <= high);
  };
  within(draws(R"({"uniform":[-1,2]})"), -1, 2);
  within(draws(R"({"loguniform":[1e-4,0.1]})"), 1e-4, 0.1);
  auto ints = draws(R"({"randint":[0,10]})");
  CHECK(ints.size() == 10);
  within(ints, 0, 9);
  auto quantised = draws(R"({"qrandint":[0,10,2]})");
  CHECK(quantised.size() == 6);
  for (const auto& [value, count] : quantised) CHECK(std::abs(count - 4000 / 6) < 150);
  auto quarters = draws(R"({"quniform":[0,1,0.25]})");
  CHECK(quarters.size() == 5);
  for (const auto& [value, count] : quarters) CHECK(std::abs(count - 800) < 150);
  within(draws(R"({"lograndint":[1,1000]})"), 1, 999);
  within(draws(R"({"qlograndint":[5,100,5]})"), 5, 100);
  auto normal = draws(R"({"randn":[10,2]})");
  double sum = 0;
  for (const auto& [value, count] : normal) sum += value * count;
  CHECK(std::abs(sum / 4000 - 10) < 0.2);
}
