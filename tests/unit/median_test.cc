#include "common/decide/median.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>

#include "common/algorithms/registry.h"
#include "common/base/limits.h"

using namespace rt;

namespace {

ExperimentSpec MedianSpec(const std::string& options, const std::string& mode = "max") {
  const auto json = Json::Parse(
      R"({"experiment":"e","command":["x"],"metric":"score","mode":")" + mode +
      R"(","scheduler":{"median_stopping":{"time_attr":"training_iteration")" + options + "}}}");
  const auto spec = ParseExperimentSpec(*json);
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  return *spec;
}

// Trials of one search, fed the way Ray's tests feed theirs.
struct Search {
  ExperimentSpec spec;
  std::map<uint32_t, std::vector<CurvePoint>> curves;
  std::map<uint32_t, double> best;
  std::set<double> recorded = {};

  explicit Search(const std::string& options, const std::string& mode = "max")
      : spec(MedianSpec(options, mode)) {}

  // As the head does with every row.
  void Note(uint32_t trial, double t, double value) {
    if (t >= *SchedulerOf(spec).CurvesFrom(spec)) AddToCurve({t, value}, curves[trial]);
    const double sign = spec.mode == Mode::kMax ? 1 : -1;
    if (!std::isnan(value) && (!best.contains(trial) || sign * value > sign * best[trial]))
      best[trial] = value;
  }
  RowVerdict Report(uint32_t trial, double t, double value) {
    Note(trial, t, value);
    const TrialLimits limits = SchedulerOf(spec).LimitsOf(spec, 0);
    ScheduledTrial scheduled{trial, 0, recorded, limits};
    if (best.contains(trial)) scheduled.best = best[trial];
    for (const auto& [number, curve] : curves)
      if (number != trial) scheduled.others.push_back(&curve);
    const Json row = Json::MakeObject({{"score", value}});
    return SchedulerOf(spec).OnRow(spec, scheduled, {row, t, 0});
  }
  bool Stops(uint32_t trial, double t, double value) {
    return Report(trial, t, value).verdict.action == TrialVerdict::Action::kStop;
  }
  // Ray's basicSetup: trial 1 climbs, trial 2 stays at 450; neither is stopped.
  void Begin() {
    for (int i = 0; i < 10; ++i) CHECK_FALSE(Stops(1, i, 100 * i));
    for (int i = 0; i < 5; ++i) CHECK_FALSE(Stops(2, i, 450));
  }
};

constexpr char kNoGrace[] = R"(,"grace_period":0,"min_samples_required":1)";

}  // namespace

// The traces of Ray's test_trial_scheduler.py.
TEST_CASE(
    "median: a trial is stopped when its best is below the mean of another that came as far") {
  Search search(kNoGrace);
  search.Begin();
  search.Note(1, 10, 1000);
  CHECK_FALSE(search.Stops(2, 5, 450));
  CHECK_FALSE(search.Stops(2, 6, 0));
  CHECK(search.Stops(2, 10, 450));
}

TEST_CASE("median: nobody is stopped in the grace period") {
  Search search(R"(,"grace_period":2.5,"min_samples_required":1)");
  search.Begin();
  search.Note(1, 10, 1000);
  search.Note(2, 10, 1000);
  CHECK_FALSE(search.Stops(3, 1, 10));
  CHECK_FALSE(search.Stops(3, 2, 10));
  CHECK(search.Stops(3, 3, 10));
}

TEST_CASE("median: nobody is stopped while too few others have come as far") {
  Search search(R"(,"grace_period":0,"min_samples_required":2)");
  search.Begin();
  search.Note(1, 10, 1000);
  CHECK_FALSE(search.Stops(3, 5, 10));
  search.Note(2, 5, 1000);
  CHECK(search.Stops(3, 5, 10));
}

TEST_CASE("median: of two others the mean of their means counts") {
  Search search(kNoGrace);
  search.Begin();
  search.Note(1, 10, 1000);
  search.Note(2, 10, 1000);
  CHECK_FALSE(search.Stops(3, 1, 260));
  CHECK(search.Stops(3, 2, 260));
}

TEST_CASE("median: trials that have not come as far do not count") {
  Search search(kNoGrace);
  search.Begin();
  CHECK_FALSE(search.Stops(2, 100, 0));
  search.Note(1, 101, 1000);
  CHECK(search.Stops(2, 101, 0));
}

TEST_CASE("median: less is better in mode min, and the defaults are Ray's") {
  Search search(kNoGrace, "min");
  search.Report(0, 1, 2);
  CHECK_FALSE(search.Stops(1, 1, 2));
  CHECK(search.Stops(2, 1, 2.5));
  const Json options = MedianSpec("").scheduler.options;
  CHECK(options.GetDouble("grace_period") == 60);
  CHECK(options.GetInt("min_samples_required") == 3);
  CHECK(options.GetBool("hard_stop"));
}

TEST_CASE("percentile: a trial continues while it reaches the best part of the others") {
  const auto spec_with = [](const std::string& mode) {
    Search search(kNoGrace, mode);
    search.spec = *ParseExperimentSpec(*Json::Parse(
        R"({"experiment":"e","command":["x"],"metric":"score","mode":")" + mode +
        R"(","scheduler":{"percentile":{"time_attr":"training_iteration","grace_period":0,)"
        R"("min_samples_required":1,"percentile":25}}})"));
    return search;
  };
  Search most = spec_with("max"), least = spec_with("min");
  for (uint32_t i = 0; i < 5; ++i) {
    most.Report(i, 1, 10.0 * (i + 1));
    least.Report(i, 1, 10.0 * (i + 1));
  }
  // Of 10, 20, 30, 40 and 50, the best quarter reaches 40, and with less being better 20.
  CHECK_FALSE(most.Stops(5, 1, 40));
  CHECK(most.Stops(6, 1, 37));
  CHECK_FALSE(least.Stops(5, 1, 20));
  CHECK(least.Stops(6, 1, 23));
}

TEST_CASE("median: values that are not numbers are left out") {
  Search search(kNoGrace);
  search.Report(0, 1, NAN);
  CHECK_FALSE(search.Stops(1, 1, -5));  // One other trial, without a mean.
  CHECK_FALSE(search.Stops(2, 1, NAN));
  search.Report(0, 2, 7);
  CHECK(search.Stops(1, 2, -5));
  CHECK(std::isnan(MedianOf({})));
  CHECK(MedianOf({NAN, 3, 1, 2}) == 2);
  CHECK(MedianOf({4, 1}) == 2.5);
}

TEST_CASE("median: without hard_stop a trial is paused once, until no other trial waits") {
  Search search(std::string(kNoGrace) + R"(,"hard_stop":false)");
  search.Report(0, 1, 9);
  const RowVerdict row = search.Report(1, 1, 2);
  CHECK(row.verdict.action == TrialVerdict::Action::kContinue);
  REQUIRE(row.milestone == 1.0);
  const Scheduler& scheduler = SchedulerOf(search.spec);
  const std::vector<double> none;
  RungValues rung{.milestone = 1, .values = none};
  CHECK(scheduler.AtMilestone(search.spec, rung, 2).action == TrialVerdict::Action::kPause);
  rung.others_wait = false;
  CHECK(scheduler.AtMilestone(search.spec, rung, 2).action == TrialVerdict::Action::kContinue);
  rung.others_wait = true;
  rung.may_save = false;  // It would lose what it has done.
  CHECK(scheduler.AtMilestone(search.spec, rung, 2).action == TrialVerdict::Action::kContinue);
  SearchReview review{.paused = {{.number = 1, .milestone = 1}}, .others_wait = true};
  CHECK(scheduler.Review(search.spec, review).resumed.empty());
  review.others_wait = false;
  CHECK(scheduler.Review(search.spec, review).resumed == std::vector<uint32_t>{1});
  search.recorded = {1};
  CHECK(!search.Report(1, 2, 2).milestone);
}

TEST_CASE("a curve has the running means, and few points however many rows there are") {
  std::vector<CurvePoint> curve;
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    AddToCurve({static_cast<double>(i), static_cast<double>(i)}, curve);
    sum += i;
    if (i < static_cast<int>(limits::kCurvePointsMax)) CHECK(MeanUpTo(i, curve) == sum / (i + 1));
  }
  CHECK(curve.size() <= limits::kCurvePointsMax);
  CHECK(MeanUpTo(1e9, curve) == sum / 10'000);
  CHECK(MeanUpTo(0, curve) == 0);
  CHECK(std::abs(MeanUpTo(5000, curve) - 2500) < 50);
  CHECK(std::isnan(MeanUpTo(-1, curve)));
}

TEST_CASE("rows of a trial that was restarted supersede those after its checkpoint") {
  std::vector<CurvePoint> curve;
  for (int i = 1; i <= 4; ++i) AddToCurve({static_cast<double>(i), 1}, curve);
  AddToCurve({3, 7}, curve);
  CHECK(curve.size() == 3);
  CHECK(MeanUpTo(9, curve) == 3);
  CHECK(MeanUpTo(2, curve) == 1);
}
