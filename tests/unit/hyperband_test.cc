#include "common/decide/hyperband.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>

#include "common/algorithms/registry.h"

using namespace rt;

namespace {

using Sizes = std::vector<std::pair<uint64_t, double>>;

// (trials, first rung) of each bracket.
Sizes SizesOf(double max_t, double factor) {
  Sizes sizes;
  for (const HyperBandBracket& bracket : BandOf(max_t, factor))
    sizes.emplace_back(bracket.trials, bracket.milestones.front());
  return sizes;
}

ExperimentSpec HyperBandSpec(const std::string& options) {
  const auto spec = ParseExperimentSpec(
      *Json::Parse(R"({"experiment":"e","command":["x"],"metric":"score","mode":"max",)"
                   R"("num_samples":8,"scheduler":{"hyperband":{)" +
                   options + "}}}"));
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  return *spec;
}

// All trials of bracket 1, paused at rung 4 with these values.
SearchReview PausedWith(const std::vector<double>& values) {
  SearchReview review{.brackets = {{.number = 1, .created = values.size(), .open = 0}}};
  RungMembers rung{1, 4, {}};
  for (uint32_t i = 0; i < values.size(); ++i) {
    review.paused.push_back({.number = 4 + i, .bracket = 1, .milestone = 4});
    rung.members.push_back({4 + i, values[i]});
  }
  review.rungs.push_back(rung);
  return review;
}

}  // namespace

// The values of Ray's test_trial_scheduler.py and of its formulas.
TEST_CASE("hyperband: brackets have the sizes of Ray's") {
  CHECK(SizesOf(81, 3) == Sizes{{5, 81}, {8, 27}, {15, 9}, {34, 3}, {81, 1}});
  CHECK(SizesOf(100, 4) == Sizes{{4, 100}, {8, 25}, {22, 6}, {64, 1}});
  CHECK(SizesOf(27, 3) == Sizes{{4, 27}, {6, 9}, {12, 3}, {27, 1}});
  CHECK(SizesOf(16, 2) == Sizes{{5, 16}, {5, 8}, {7, 4}, {10, 2}, {16, 1}});
  CHECK(SizesOf(1000, 10) == Sizes{{4, 1000}, {20, 100}, {134, 10}, {1000, 1}});
  CHECK(SizesOf(1, 3) == Sizes{{1, 1}});
  CHECK(BandOf(81, 3).back().milestones == std::vector<double>{1, 3, 9, 27, 81});
  CHECK(BandOf(100, 4).back().milestones == std::vector<double>{1, 4, 16, 64});
}

TEST_CASE("hyperband: trials fill the brackets of a band in order, and band after band") {
  const ExperimentSpec spec = HyperBandSpec(R"("max_t":8,"reduction_factor":2)");  // 4, 4, 6 and 8.
  const Scheduler& scheduler = SchedulerOf(spec);
  std::vector<uint32_t> brackets;
  for (uint64_t number : {0, 3, 4, 7, 8, 13, 14, 21, 22, 26})
    brackets.push_back(scheduler.BracketOf(spec, 1, number));
  CHECK(brackets == std::vector<uint32_t>{0, 0, 1, 1, 2, 2, 3, 3, 4, 5});
  CHECK(scheduler.LimitsOf(spec, 1).milestones == std::vector<double>{4, 8});
  CHECK(scheduler.LimitsOf(spec, 5).milestones == std::vector<double>{4, 8});
  const ExperimentSpec bohb =
      HyperBandSpec(R"("max_t":8,"reduction_factor":2,"largest_first":true)");
  CHECK(scheduler.BracketOf(bohb, 1, 7) == 0);
  CHECK(scheduler.BracketOf(bohb, 1, 8) == 1);
  CHECK(scheduler.LimitsOf(bohb, 0).milestones == std::vector<double>{1, 2, 4, 8});
}

TEST_CASE("hyperband: once all trials of a bracket are there the best continue, as in Ray") {
  const ExperimentSpec spec = HyperBandSpec(R"("max_t":8,"reduction_factor":2)");
  const Scheduler& scheduler = SchedulerOf(spec);
  SearchReview review = PausedWith({10, 20, 30, 40});
  const ReviewVerdict verdict = scheduler.Review(spec, review);
  CHECK(verdict.resumed == std::vector<uint32_t>{7, 6});
  REQUIRE(verdict.stopped.size() == 2);
  CHECK(verdict.stopped[0].trial == 5);
  CHECK(verdict.stopped[0].reason == "stopped by HyperBand at rung 4: 2 of 4 continue");
  CHECK(verdict.stopped[1].trial == 4);
  CHECK(scheduler.Review(spec, PausedWith({NAN, 3, 2})).stopped.size() == 1);
  review.brackets[0].open = 1;  // One has not come to the rung.
  CHECK(scheduler.Review(spec, review).resumed.empty());
}

TEST_CASE("hyperband: a bracket that is not full waits while more trials may come") {
  const ExperimentSpec spec = HyperBandSpec(R"("max_t":8,"reduction_factor":2)");
  const Scheduler& scheduler = SchedulerOf(spec);
  SearchReview review = PausedWith({10, 20, 30});
  review.others_come = true;
  CHECK(scheduler.Review(spec, review).resumed.empty());
  review.others_come = false;
  CHECK(scheduler.Review(spec, review).resumed == std::vector<uint32_t>{6, 5});
}

TEST_CASE(
    "hyperband: a trial is paused at each rung but the last, where it has trained to its end") {
  const ExperimentSpec spec = HyperBandSpec(R"("max_t":8,"reduction_factor":2)");
  const Scheduler& scheduler = SchedulerOf(spec);
  const TrialLimits limits = scheduler.LimitsOf(spec, 1);
  const std::set<double> none;
  const Json row = Json::MakeObject({{"score", 1.0}});
  CHECK(!scheduler.OnRow(spec, {4, 1, none, limits}, {row, 3, 0}).milestone);
  CHECK(scheduler.OnRow(spec, {4, 1, none, limits}, {row, 4, 0}).milestone == 4.0);
  CHECK(scheduler.OnRow(spec, {4, 1, none, limits}, {row, 8, 0}).verdict.action ==
        TrialVerdict::Action::kComplete);
  const std::vector<double> values = {1, 2, 3};
  RungValues rung{.bracket = 1, .milestone = 4, .values = values};
  CHECK(scheduler.AtMilestone(spec, rung, 9).action == TrialVerdict::Action::kPause);
  rung.may_save = false;
  CHECK(scheduler.AtMilestone(spec, rung, 9).action == TrialVerdict::Action::kContinue);
  CHECK(scheduler.AtMilestone(spec, rung, 0).action == TrialVerdict::Action::kStop);
  const RungValues last{.bracket = 1, .milestone = 8, .values = values};
  CHECK(scheduler.AtMilestone(spec, last, 0).action == TrialVerdict::Action::kContinue);
}

TEST_CASE("hyperband: the last trial of a bracket continues without a pause when it is good") {
  const ExperimentSpec spec = HyperBandSpec(R"("max_t":8,"reduction_factor":2)");
  const Scheduler& scheduler = SchedulerOf(spec);
  SearchReview review = PausedWith({10, 20, 30});
  review.brackets[0] = {.number = 1, .created = 4, .open = 1};
  const std::vector<double> values = {10, 20, 30};
  const RungValues rung{
      .bracket = 1, .milestone = 4, .values = values, .trial = 7, .review = &review};
  CHECK(scheduler.AtMilestone(spec, rung, 25).action == TrialVerdict::Action::kContinue);
  CHECK(scheduler.AtMilestone(spec, rung, 15).action == TrialVerdict::Action::kPause);
  review.rungs[0].members.push_back({7, 25});
  review.arrived = {.number = 7, .bracket = 1, .milestone = 4};
  const ReviewVerdict verdict = scheduler.Review(spec, review);
  CHECK(verdict.resumed == std::vector<uint32_t>{6});
  CHECK(verdict.stopped.size() == 2);
  review.brackets[0].open = 2;
  CHECK(scheduler.AtMilestone(spec, rung, 25).action == TrialVerdict::Action::kPause);
}

TEST_CASE("hyperband: the plan has the exact number of trials at each rung") {
  const ExperimentSpec spec = HyperBandSpec(R"("max_t":8,"reduction_factor":2)");
  const SchedulePlan plan = SchedulerOf(spec).PlanOf(spec, 8);
  REQUIRE(plan.brackets.array().size() == 4);
  const Json& second = plan.brackets.array()[1];
  CHECK(second.Find("rungs")->Dump() ==
        R"([{"milestone":4.0,"trials":4},{"milestone":8.0,"trials":2}])");
  CHECK(plan.brackets.array()[2].Find("rungs")->array()[0].GetInt("trials") == 0);
  CHECK(plan.share_of_full.AsDouble() == (4 * 8 + 4 * 4 + 2 * 4) / 64.0);
}
