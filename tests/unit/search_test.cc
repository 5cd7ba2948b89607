#include <catch2/catch.hpp>
#include <cmath>
#include <ctime>
#include <map>
#include <set>

#include "common/search/basic.h"

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

TEST_CASE("random: the largest and smallest ranges that a spec may have are drawn from") {
  for (const char* domain :
       {R"({"uniform":[-1e300,1e300]})", R"({"loguniform":[1e-300,1e300]})",
        R"({"randn":[1e300,1e300]})", R"({"quniform":[0,9e15,1]})",
        R"({"qloguniform":[1e-300,1e-290,1e-300]})", R"({"qrandn":[0,1e14,1]})"}) {
    INFO(domain);
    const ExperimentSpec spec = SpecOf(std::string(R"({"x":)") + domain + "}", 100);
    std::set<double> values;
    for (uint64_t n = 0; n < 100; ++n) {
      const auto drawn = SuggestBasic(spec, 1, n);
      const double value = drawn->Find("x")->AsDouble();
      REQUIRE(std::isfinite(value));
      values.insert(value);
    }
    CHECK(values.size() > 50);
  }
}

TEST_CASE("points: a point may fix a nested grid, by either way to write its path") {
  auto spec = ParseExperimentSpec(*Json::Parse(
      R"({"experiment":"e","command":["x"],"num_samples":4,
          "space":{"a":{"grid":[1,2]},"n":{"b":{"grid":[1,2,3]}},"c":5},
          "search":{"basic":{"points":[{"a":9},{"n":{"b":8}},{"n/b":7}]}}})"));
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  CHECK(spec->trials_through == std::vector<uint64_t>{3, 5, 7});
  CHECK(spec->TrialsTotal() == 13);
  std::vector<std::string> seen;
  for (uint64_t n = 0; auto params = SuggestBasic(*spec, 1, n); ++n)
    seen.push_back(params->Dump());
  REQUIRE(seen.size() == 13);
  CHECK(seen[2] == R"({"a":9,"n":{"b":3},"c":5})");
  CHECK(seen[4] == R"({"a":2,"n":{"b":8},"c":5})");
  CHECK(seen[5] == R"({"a":1,"n":{"b":null},"c":5,"n/b":7})");
  CHECK(seen[7] == R"({"a":1,"n":{"b":1},"c":5})");
}

TEST_CASE("search: the time for a configuration is linear in what it has") {
  Json space = Json::MakeObject(), point = Json::MakeObject();
  for (int i = 0; i < 40'000; ++i) {
    const std::string number = std::to_string(i);
    space.object().emplace_back("v" + number,
                                Json::MakeObject({{"grid", Json(Json::Array{Json(i)})}}));
    point.object().emplace_back((i % 2 == 0 ? "v" : "w") + number, Json(-i));
  }
  const Json json = Json::MakeObject(
      {{"experiment", "e"}, {"command", Json(Json::Array{"x"})}, {"num_samples", 10},
       {"space", std::move(space)},
       {"search", Json::MakeObject(
                      {{"basic", Json::MakeObject({{"points", Json(Json::Array{point})}})}})}});
  const std::clock_t before = std::clock();  // Of this process alone: others may be busy.
  auto spec = ParseExperimentSpec(json, SpecSource::kJournal);
  REQUIRE(spec.ok());
  for (uint64_t number = 0; number < 10; ++number) {
    const auto params = SuggestBasic(*spec, 1, number);
    REQUIRE(params.has_value());
    CHECK(params->GetInt("v39999") == 39'999);
    CHECK(params->GetInt("v39998") == (number == 0 ? -39'998 : 39'998));
  }
  CHECK((std::clock() - before) / CLOCKS_PER_SEC < 5);  // Quadratic: half a minute.
}
