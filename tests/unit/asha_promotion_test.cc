#include "common/decide/asha_promotion.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "common/algorithms/registry.h"

using namespace rt;

namespace {

std::vector<uint32_t> Promoted(double factor, std::vector<double> values, Mode mode = Mode::kMin) {
  std::vector<RungMember> members;
  for (uint32_t i = 0; i < values.size(); ++i) members.push_back({i, values[i]});
  return PromotedOf(factor, mode, members);
}

std::optional<double> MilestoneOf(double t, std::set<double> recorded) {
  const auto json =
      Json::Parse(R"({"experiment":"e","command":["x"],"metric":"loss","mode":"min",)"
                  R"("scheduler":{"asha_promotion":{"max_t":81,"reduction_factor":3}}})");
  const ExperimentSpec spec = *ParseExperimentSpec(*json);
  const Scheduler& scheduler = SchedulerOf(spec);
  const TrialLimits limits = scheduler.LimitsOf(spec, 0);
  const Json row = Json::MakeObject({{"loss", 1.0}});
  return scheduler.OnRow(spec, {0, 0, recorded, limits}, {row, t, 0}).milestone;
}

}  // namespace

TEST_CASE("asha promotion: of n trials at a rung the best n / reduction_factor are promoted") {
  CHECK(Promoted(3, {5, 4}).empty());
  CHECK(Promoted(3, {5, 4, 6}) == std::vector<uint32_t>{1});
  CHECK(Promoted(3, {5, 4, 6}, Mode::kMax) == std::vector<uint32_t>{2});
  CHECK(Promoted(2, {5, 4, 6, 1}) == std::vector<uint32_t>{3, 1});
  CHECK(Promoted(2, {5, 5, 5, 5}) == std::vector<uint32_t>{0, 1});  // The earlier one is better.
  CHECK(Promoted(2, {NAN, 5, NAN, NAN}) == std::vector<uint32_t>{1});
}

TEST_CASE("asha promotion: the decision on arrival is the one by rank") {
  const std::vector<double> values = {3, 1, 2, 2, 5, NAN, 0, 2, 4, 1, 1, 0};
  for (Mode mode : {Mode::kMin, Mode::kMax}) {
    std::vector<double> sorted, all;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool promoted = IsPromoted(3, mode, sorted, i, values[i]);
      all.push_back(values[i]);
      const std::vector<uint32_t> top = Promoted(3, all, mode);
      CHECK(promoted == (std::find(top.begin(), top.end(), i) != top.end()));
      if (std::isnan(values[i])) continue;
      sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), values[i]), values[i]);
    }
  }
}

TEST_CASE("asha promotion: a row is recorded at the highest rung that it reached, never below") {
  CHECK(MilestoneOf(1, {}) == 1.0);
  CHECK(MilestoneOf(0.5, {}) == std::nullopt);
  CHECK(MilestoneOf(10, {1}) == 9.0);
  CHECK(MilestoneOf(11, {9}) == std::nullopt);  // Rung 3 was skipped.
  CHECK(MilestoneOf(28, {1, 3, 9}) == 27.0);
}

TEST_CASE("asha promotion: a time that is no number reaches no rung") {
  CHECK(MilestoneOf(NAN, {}) == std::nullopt);
  CHECK(AshaMilestone({1, 3, 9}, NAN, {}) == std::nullopt);
}

TEST_CASE("asha promotion: the plan has the exact number of trials at each rung") {
  const auto json = Json::Parse(
      R"({"experiment":"e","command":["x"],"metric":"loss","mode":"min","num_samples":10,)"
      R"("scheduler":{"asha_promotion":{"max_t":27,"reduction_factor":3}}})");
  const ExperimentSpec spec = *ParseExperimentSpec(*json);
  const SchedulePlan plan = SchedulerOf(spec).PlanOf(spec, 10);
  std::vector<int64_t> trials;
  for (const Json& rung : plan.brackets.array().front().Find("rungs")->array())
    trials.push_back(rung.GetInt("trials"));
  CHECK(trials == std::vector<int64_t>{10, 3, 1, 1});
}

TEST_CASE("asha: a plan of immense times has no share of them") {
  const auto json = Json::Parse(
      R"({"experiment":"e","command":["x"],"metric":"loss","mode":"min","num_samples":10,)"
      R"("scheduler":{"asha":{"max_t":1e308}}})");
  const ExperimentSpec spec = *ParseExperimentSpec(*json);
  CHECK(SchedulerOf(spec).PlanOf(spec, 10).share_of_full.is_null());
}
