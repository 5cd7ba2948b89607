#include "common/decide/reallocation.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/spec/experiment_spec.h"
#include "common/spec/journalled_spec.h"

namespace rt {
namespace {

using Kind = ReallocationSpec::Kind;

Resources Amounts(int64_t cpus, int64_t gpus = 0) {
  Resources amounts;
  amounts.cpu = cpus * kUnit;
  amounts.gpu = gpus * kUnit;
  return amounts;
}

ResourceRequest Asking(int64_t cpus, int64_t gpus = 0) {
  ResourceRequest request;
  request.bundles = {Amounts(cpus, gpus)};
  return request;
}

ReallocationSpec Even() {
  ReallocationSpec spec;
  spec.kind = Kind::kEven;
  return spec;
}

std::vector<ReallocatedTrial> TrialsWith(const std::vector<int64_t>& cpus) {
  std::vector<ReallocatedTrial> trials;
  for (size_t i = 0; i < cpus.size(); ++i)
    trials.push_back({static_cast<uint32_t>(i), Asking(cpus[i]), static_cast<double>(i)});
  return trials;
}

int64_t Units(const ReallocationSpec& spec, int64_t cpus, const std::vector<int64_t>& trials,
              uint32_t number) {
  return UnitsFor(spec, Asking(1), Amounts(cpus), TrialsWith(trials), number);
}

TEST_CASE("free capacity is shared evenly, and the rest goes to the trials that save first") {
  CHECK(Units(Even(), 8, {1, 1}, 0) == 3);
  CHECK(Units(Even(), 9, {1, 1}, 1) == 4);  // Seven cpus for two: one of them has four.
  CHECK(Units(Even(), 9, {1, 5}, 0) == 3);
  CHECK(Units(Even(), 8, {4, 4}, 0) == 3);  // Nothing is free.
  CHECK(Units(Even(), 8, {8}, 0) == 7);
}

TEST_CASE("a trial shrinks where others lack capacity, but not below its base") {
  CHECK(Units(Even(), 4, {4, 1}, 0) == 2);
  CHECK(Units(Even(), 4, {4, 1}, 1) == 0);
  CHECK(Units(Even(), 4, {1, 1, 1, 1, 1, 1}, 3) == 0);
  CHECK(Units(Even(), 0, {1}, 0) == 0);  // A cluster that has lost its nodes.
}

TEST_CASE("reserve and increase_by_times limit the growth of a trial") {
  ReallocationSpec spec = Even();
  spec.reserve = Amounts(2);
  CHECK(Units(spec, 8, {1, 1}, 0) == 2);
  spec.increase_by = Amounts(2);
  CHECK(Units(spec, 12, {1}, 0) == 4);
  spec.increase_by_times = 3;
  CHECK(Units(spec, 12, {1}, 0) == 3);
  CHECK(WithAddedUnits(spec, Asking(1), 3) == Asking(7));
  CHECK(AddedUnits(spec, Asking(1), Asking(7)) == 3);
}

TEST_CASE("the top trial takes what is free, and others keep what they have") {
  ReallocationSpec spec = Even();
  spec.kind = Kind::kTop;
  CHECK(Units(spec, 8, {1, 3, 1}, 2) == 3);
  CHECK(Units(spec, 8, {1, 3, 1}, 1) == 2);
  CHECK(Units(spec, 8, {1, 3, 1}, 0) == 0);
  spec.is_max = false;
  CHECK(Units(spec, 8, {1, 3, 1}, 0) == 3);
  CHECK(Units(spec, 4, {1, 3, 1}, 1) == 1);  // A trial lacks a cpu.
  std::vector<ReallocatedTrial> trials = TrialsWith({1, 1});
  trials[0].score = NAN;
  CHECK(UnitsFor(spec, Asking(1), Amounts(4), trials, 1) == 2);  // NaN is never the best.
  spec.increase_by = Amounts(1);
  spec.increase_by_times = 2;
  CHECK(Units(spec, 8, {3, 1}, 1) == 2);  // The best trial has grown as far as it may.
}

TEST_CASE("trials with gpus grow by gpus") {
  CHECK(ReallocationUnit(Even(), Asking(1, 1)) == Amounts(0, 1));
  std::vector<ReallocatedTrial> trials = {{0, Asking(1, 1), 0}, {1, Asking(1, 1), 0}};
  CHECK(UnitsFor(Even(), Asking(1, 1), Amounts(2, 4), trials, 0) == 1);
  ResourceRequest shared = Asking(1);
  shared.bundles.front().gpu = kUnit / 2;
  CHECK(ReallocationUnit(Even(), shared) == Amounts(1));  // A share of a gpu does not grow.
  ReallocationSpec both = Even();
  both.increase_by = Amounts(2, 1);
  CHECK(UnitsFor(both, Asking(1, 1), Amounts(7, 4), trials, 0) == 1);  // By what is scarce.
}

TEST_CASE("bundles are added") {
  ReallocationSpec spec = Even();
  spec.add_bundles = true;
  ResourceRequest base = Asking(1);
  base.bundles = {Amounts(1), Amounts(2)};
  base.ranks = 1;
  CHECK(UnitsFor(spec, base, Amounts(7), {{0, base, 0}}, 0) == 2);
  const ResourceRequest grown = WithAddedUnits(spec, base, 2);
  CHECK(grown.bundles.size() == 4u);
  CHECK(grown.bundles.back() == Amounts(2));
  CHECK(grown.ranks == 1u);
  CHECK(AddedUnits(spec, base, grown) == 2);
  base.ranks = 2;
  CHECK(WithAddedUnits(spec, base, 2).ranks == 4u);  // Each bundle has a rank.
}

// Whatever trials have, one that is asked gets between its base and what is free.
TEST_CASE("no trial is given more than there is") {
  for (const Kind kind : {Kind::kEven, Kind::kTop})
    for (int64_t cpus = 0; cpus <= 9; ++cpus)
      for (int64_t a = 1; a <= 5; ++a)
        for (int64_t b = 1; b <= 5; ++b)
          for (uint32_t number : {0u, 1u}) {
            ReallocationSpec spec = Even();
            spec.kind = kind;
            const int64_t own = number == 0 ? a : b, other = number == 0 ? b : a;
            const int64_t has = 1 + Units(spec, cpus, {a, b}, number);
            CHECK(has >= 1);
            if (has > own) CHECK(has + other <= cpus);
            if (has < own) CHECK(own + other > cpus);
          }
}

absl::StatusOr<ExperimentSpec> ParsedSpec(const std::string& more) {
  return ParseExperimentSpec(*Json::Parse(
      R"({"experiment":"e","command":["x"],"metric":"loss","mode":"min")" + more + "}"));
}

TEST_CASE("a reallocation is read, and survives the journal") {
  const auto spec = ParsedSpec(
      R"(,"reallocation":{"distribute_to_top":{"increase_by":{"CPU":2},"increase_by_times":3,
      "reserve":{"cpu":1},"metric":"accuracy","mode":"max"}})");
  REQUIRE(spec.ok());
  const std::string text = NormalText(*spec);
  const ReallocationSpec again =
      ReadJournalledExperiment({"", text, kSpecFormat}).spec.reallocation;
  CHECK(again.kind == Kind::kTop);
  CHECK(again.increase_by == Amounts(2));
  CHECK(again.increase_by_times == 3);
  CHECK(again.reserve == Amounts(1));
  CHECK(again.metric == "accuracy");
  CHECK(again.is_max);
  CHECK(NormalText(*ParsedSpec("")).find("reallocation") == std::string::npos);
}

TEST_CASE("a wrong reallocation names where it is wrong") {
  const auto path = [](const std::string& more) {
    return SpecPathOf(ParsedSpec(",\"reallocation\":" + more).status());
  };
  CHECK(path("{\"fair\":{}}") == "reallocation");
  CHECK(path("{\"distribute\":{\"by\":1}}") == "reallocation/distribute/by");
  CHECK(path("{\"distribute_to_top\":{\"metric\":3}}") == "reallocation/distribute_to_top/metric");
  CHECK(path("{\"distribute\":{\"metric\":\"loss\"}}") == "reallocation/distribute/metric");
  CHECK(path("{\"distribute\":{\"increase_by\":{\"memory\":\"1GiB\"}}}") ==
        "reallocation/distribute/increase_by");
  CHECK(path("{\"distribute\":{\"increase_by\":{\"gpu\":0.5}}}") ==
        "reallocation/distribute/increase_by");
  CHECK(path("{\"distribute\":{\"increase_by_times\":2}}") ==
        "reallocation/distribute/increase_by_times");
  CHECK(path("{\"distribute_to_top\":{\"metric\":\"a\",\"mode\":\"up\"}}") ==
        "reallocation/distribute_to_top/mode");
  CHECK(path("{\"distribute\":{}},\"resources\":{\"cpu\":1,\"ranks\":2}") == "reallocation");
  CHECK(path("{\"distribute\":{}},\"resources\":{\"cpu\":1,\"ranks\":[1,2]}") == "reallocation");
}

TEST_CASE("a driver that allocates is read, and refused where the head decides") {
  const auto spec = ParsedSpec(R"(,"driver":{"allocates":true})");
  REQUIRE(spec.ok());
  const auto back = ReadJournalledExperiment({"", NormalText(*spec), kSpecFormat});
  CHECK(back.warnings.empty());
  CHECK(back.spec.driver.allocates);
  CHECK(back.spec.driver.IsAsked());
  for (const char* more :
       {R"(,"reallocation":{"distribute":{}})", R"(,"resources":{"cpu":1,"ranks":[1,2]})"})
    CHECK(SpecPathOf(ParsedSpec(std::string(R"(,"driver":{"allocates":true})") + more).status()) ==
          "driver/allocates");
}

}  // namespace
}  // namespace rt
