#include <catch2/catch.hpp>

#include <cmath>
#include <map>

#include "common/decide/asha.h"

using namespace rt;

namespace {

// One bracket with its rungs, fed the way Ray's tests feed theirs.
struct Bracket {
  AshaOptions spec;
  Mode mode = Mode::kMax;
  std::map<double, std::vector<double>> rungs;
  std::map<int, std::set<double>> recorded;

  // True when the trial stops.
  bool Report(int trial, double t, double value) {
    if (spec.stop_last_trials && t >= spec.ladder.max_t) return true;
    auto milestone = AshaMilestone(MilestonesOf(spec.ladder, 0), t, recorded[trial]);
    if (!milestone) return false;
    std::vector<double>& values = rungs[*milestone];
    bool stops = AshaStops(spec.ladder.reduction_factor, mode, values, value);
    recorded[trial].insert(*milestone);
    if (!std::isnan(value))
      values.insert(std::upper_bound(values.begin(), values.end(), value), value);
    return stops;
  }
};

Bracket Make(double grace, double max_t, double factor) {
  return {.spec = {.ladder = {grace, factor, max_t}}};
}

std::map<double, std::set<int>> TraceA(double grace, double max_t, double factor, int n) {
  Bracket bracket = Make(grace, max_t, factor);
  std::map<double, std::set<int>> stopped;
  std::set<int> live;
  for (int i = 0; i < n; ++i) live.insert(i);
  for (int t = 1; t <= max_t; ++t) {
    std::set<int> round = live;
    for (int i : round) {
      double metric = (7 * i) % 16 + t / 16.0;
      if (!bracket.Report(i, t, metric)) continue;
      stopped[t].insert(i);
      live.erase(i);
    }
  }
  return stopped;
}

}  // namespace

TEST_CASE("asha: rungs come from repeated multiplication") {
  auto rungs = [](double grace, double max_t, double factor) {
    return MilestonesOf({grace, factor, max_t}, 0);
  };
  CHECK(rungs(1, 100, 4) == std::vector<double>{1, 4, 16, 64});
  CHECK(rungs(1, 81, 3) == std::vector<double>{1, 3, 9, 27, 81});
  CHECK(rungs(10, 100, 3) == std::vector<double>{10, 30, 90});
  CHECK(rungs(5, 100, 2) == std::vector<double>{5, 10, 20, 40, 80});
  CHECK(rungs(1, 243, 3).size() == 6);
  CHECK(rungs(1, 216, 6).size() == 4);
  CHECK(rungs(1, 1e6, 10).size() == 7);
}

TEST_CASE("asha: golden trace A") {
  CHECK(TraceA(1, 16, 4, 16) ==
        std::map<double, std::set<int>>{
            {1, {3, 5, 6, 7, 8, 10, 12, 13, 14, 15}}, {4, {11}}, {16, {0, 1, 2, 4, 9}}});
  CHECK(TraceA(1, 27, 3, 12) == std::map<double, std::set<int>>{{1, {3, 5, 7, 8, 10}},
                                                                {3, {6}},
                                                                {9, {11}},
                                                                {27, {0, 1, 2, 4, 9}}});
  CHECK(TraceA(2, 16, 2, 10) == std::map<double, std::set<int>>{
                                    {2, {3, 5, 7}}, {4, {8}}, {16, {0, 1, 2, 4, 6, 9}}});
}

TEST_CASE("asha: a trial below the cut stops, ties and NaN go on") {
  Bracket bracket = Make(1, 10, 2);
  for (int i = 0; i < 10; ++i) bracket.Report(1, i, 100 * i);
  for (int i = 0; i < 5; ++i) bracket.Report(2, i, 450);
  CHECK(bracket.Report(3, 1, 260));
  CHECK(bracket.Report(3, 2, 260));
  Bracket fractional = Make(2.5, 100, 3);
  for (int i = 0; i < 10; ++i) fractional.Report(1, i, 100 * i);
  for (int i = 0; i < 5; ++i) fractional.Report(2, i, 450);
  CHECK(!fractional.Report(3, 1, 10));
  CHECK(!fractional.Report(3, 2, 10));
  CHECK(fractional.Report(3, 3, 10));
  Bracket equal = Make(1, 100, 4);
  for (int i = 0; i < 5; ++i) CHECK(!equal.Report(i, 1, 10));
  CHECK(equal.Report(5, 1, 5));
  CHECK(!equal.Report(6, 1, NAN));
}

TEST_CASE("asha: without stop_last_trials a late report records a lower rung at the next result") {
  Bracket bracket = Make(1, 3, 2);
  bracket.spec.stop_last_trials = false;
  CHECK(!bracket.Report(0, 2, 10));
  CHECK(bracket.Report(1, 2, 8));
  CHECK(bracket.Report(2, 2, 6));
  CHECK(bracket.Report(3, 2, 4));
}
