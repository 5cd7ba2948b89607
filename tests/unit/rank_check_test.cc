#include "common/decide/rank_check.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/algorithms/registry.h"

using namespace rt;

namespace {

RungMembers RungWith(double milestone, std::vector<double> values) {
  RungMembers rung{.milestone = milestone};
  for (uint32_t i = 0; i < values.size(); ++i) rung.members.push_back({i, values[i]});
  return rung;
}

ExperimentSpec RungSpec(const std::string& scheduler) {
  const auto spec = ParseExperimentSpec(*Json::Parse(
      R"({"experiment":"e","command":["x"],"metric":"loss","mode":"min","scheduler":)" + scheduler +
      "}"));
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  return *spec;
}

}  // namespace

TEST_CASE("rank check: Spearman's correlation, with equal values at their mean rank") {
  CHECK(RankCorrelation({{1, 10}, {2, 20}, {3, 400}}) == 1.0);
  CHECK(RankCorrelation({{1, 3}, {2, 2}, {3, 1}}) == -1.0);
  // scipy.stats.spearmanr([1, 2, 2, 4], [1, 3, 2, 4]) = 0.9486832980505138
  CHECK(*RankCorrelation({{1, 1}, {2, 3}, {2, 2}, {4, 4}}) == Approx(0.9486832980505138));
  CHECK(!RankCorrelation({{1, 1}, {1, 2}}));
  CHECK(!RankCorrelation({{1, 1}}));
}

TEST_CASE("rank check: trials in common are those with a number at both rungs") {
  const auto common = CommonOf(RungWith(1, {1, NAN, 3}), RungWith(3, {5, 6}));
  REQUIRE(common.size() == 1);
  CHECK(common[0].lower == 1);
  CHECK(common[0].upper == 5);
}

TEST_CASE("rank check: ranks differ only beyond the tolerance") {
  CHECK_FALSE(RanksDiffer({{1, 1}, {2, 2}, {3, 3}}, 0));
  CHECK(RanksDiffer({{1, 2}, {2, 1}, {3, 3}}, 0));
  CHECK_FALSE(RanksDiffer({{1, 2}, {2, 1}, {3, 3}}, 1.5));  // The deviation is 0.82.
  CHECK(RanksDiffer({{1, 3}, {2, 2}, {3, 1}}, 1.5));
  CHECK_FALSE(RanksDiffer({{1, 1}}, 0));
}

TEST_CASE("rank check: a rung that says nothing of the next one is passed over") {
  const RungMembers first = RungWith(1, {1, 2, 3, 4, 5, 6});
  const RungMembers alike = RungWith(2, {1, 2, 3, 4, 5, 6}),
                    other = RungWith(2, {6, 5, 4, 3, 2, 1});
  const RungMembers last = RungWith(4, {6, 5, 4, 3, 2, 1});
  CHECK(FirstTellingRung({&first, &alike, &last}, 2) == 1);
  CHECK(FirstTellingRung({&first, &other, &last}, 2) == 2);
  CHECK(FirstTellingRung({&first, &other, &last}, 3) == 1);  // Too few trials to tell.
  CHECK(FirstTellingRung({}, 2) == 0);
}

TEST_CASE("rank check: trials pass a misleading rung in each variant of ASHA") {
  SearchReview review;
  review.rungs = {RungWith(1, {1, 2, 3, 4, 5, 6}), RungWith(2, {6, 5, 4, 3, 2, 1})};
  const std::vector<double> values = {1, 2, 3, 4, 5, 6};
  RungValues rung{.milestone = 1, .values = values, .recorded = 6, .trial = 6, .review = &review};
  for (const char* name : {"asha", "asha_promotion", "pasha"}) {
    const std::string options =
        std::string("{\"") + name + R"(":{"max_t":8,"reduction_factor":2,"rank_check":)";
    const ExperimentSpec checked = RungSpec(options + "true}}"),
                         plain = RungSpec(options + "false}}");
    INFO(name);
    using Action = TrialVerdict::Action;
    CHECK(SchedulerOf(checked).compares_rungs(checked));
    CHECK(SchedulerOf(checked).AtMilestone(checked, rung, 9).action == Action::kContinue);
    CHECK(SchedulerOf(plain).AtMilestone(plain, rung, 9).action != Action::kContinue);
  }
  const ExperimentSpec spec =
      RungSpec(R"({"asha_promotion":{"max_t":8,"reduction_factor":2,"rank_check":true}})");
  review.paused = {{.number = 5, .milestone = 1}};  // The worst one.
  CHECK(SchedulerOf(spec).Review(spec, review).resumed == std::vector<uint32_t>{5});
}

TEST_CASE("pasha: higher rungs are opened while the two highest ones rank trials differently") {
  const ExperimentSpec spec =
      RungSpec(R"({"pasha":{"max_t":16,"reduction_factor":2,"tolerance":0}})");
  const Scheduler& pasha = SchedulerOf(spec);
  SearchReview review;
  review.rungs = {RungWith(1, {1, 2, 3, 4}), RungWith(2, {1, 2})};
  review.paused = {{.number = 0, .milestone = 2}, {.number = 2, .milestone = 1}};
  CHECK(pasha.Review(spec, review).resumed.empty());  // The ranks agree.
  review.rungs[1] = RungWith(2, {2, 1, 9, 9});
  review.paused = {{.number = 1, .milestone = 2}, {.number = 3, .milestone = 2}};
  CHECK(pasha.Review(spec, review).resumed == std::vector<uint32_t>{1});
  // A trial that arrives at the highest open rung waits, however good it is.
  review.rungs = {RungWith(1, {1, 2, 3, 4}), RungWith(2, {1, 2})};
  const std::vector<double> values = {1, 2};
  RungValues rung{.milestone = 2, .values = values, .recorded = 2, .trial = 2, .review = &review};
  CHECK(pasha.AtMilestone(spec, rung, 0).reason ==
        "at rung 2, until the ranks of the trials at the two highest rungs differ");
  // At the end the best of the highest rung is trained to its end.
  review.paused = {{.number = 0, .milestone = 2}, {.number = 1, .milestone = 2}};
  review.is_idle = true;
  CHECK(pasha.Review(spec, review).resumed == std::vector<uint32_t>{0});
}

TEST_CASE("pasha: a trial that trains on alone opens no rung for the others") {
  const ExperimentSpec spec =
      RungSpec(R"({"pasha":{"max_t":16,"reduction_factor":2,"tolerance":0}})");
  const Scheduler& pasha = SchedulerOf(spec);
  SearchReview review;
  review.rungs = {RungWith(1, {1, 2, 3, 4}), RungWith(2, {1, 2, 3, 4}), RungWith(4, {1})};
  review.paused = {{.number = 1, .milestone = 2}, {.number = 2, .milestone = 2}};
  CHECK(pasha.Review(spec, review).resumed.empty());  // The ranks agree.
  review.rungs[2] = RungWith(4, {1, 2});              // The ranks had differed.
  review.paused = {{.number = 1, .milestone = 4}, {.number = 2, .milestone = 2}};
  CHECK(pasha.Review(spec, review).resumed.empty());
  review.paused = {{.number = 1, .milestone = 2}};
  CHECK(pasha.Review(spec, review).resumed == std::vector<uint32_t>{1});
}

TEST_CASE("pasha: a ladder of one or two rungs has no rung to open") {
  const ExperimentSpec spec = RungSpec(R"({"pasha":{"max_t":2,"reduction_factor":2}})");
  SearchReview review{.paused = {{.number = 0, .milestone = 1}}};
  review.rungs = {RungWith(1, {1, 2})};
  CHECK(SchedulerOf(spec).Review(spec, review).resumed == std::vector<uint32_t>{0});
}
