// How near to a minimum the models come. These cases check numbers, as the released code computes
// them; the others of the models run with sanitizers and are shorter.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "common/search/cma.h"
#include "common/search/gp.h"
#include "common/search/noise.h"
#include "common/search/tpe.h"
#include "tests/unit/mobster_course.h"
#include "tests/unit/search_course.h"
#include "tests/unit/tree_course.h"

using namespace rt;

namespace {

using ScoredBy = double (*)(const Point&);

// A search with one trial in flight; the best value.
double Search(const Encoding& encoding, size_t trials, uint64_t seed, ScoredBy objective) {
  Observations seen;
  double best = HUGE_VAL;
  for (uint64_t number = 0; number < trials; ++number) {
    Point point = SuggestTpe(encoding, seen, seed, number)->point;
    const double value = objective(point);
    best = std::min(best, value);
    seen.finished.push_back({number, std::move(point), value});
  }
  return best;
}

double RandomSearch(const Encoding& encoding, size_t trials, uint64_t seed, ScoredBy objective) {
  double best = HUGE_VAL;
  for (uint64_t number = 0; number < trials; ++number) {
    Rng rng(seed, number);
    Point point(encoding.axes().size());
    for (double& each : point) each = rng.Uniform();
    best = std::min(best, objective(encoding.Snap(point)));
  }
  return best;
}

// The means of the best values of ten searches.
struct Means {
  double tpe = 0, random = 0;
};

Means MeansOfTen(const Encoding& encoding, size_t trials, ScoredBy objective) {
  Means means;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    means.tpe += Search(encoding, trials, seed, objective) / 10;
    means.random += RandomSearch(encoding, trials, seed, objective) / 10;
  }
  return means;
}

double Valley(const Point& point) {
  double sum = 0;
  for (const double x : point) sum += (x - 0.4) * (x - 0.4);
  return sum;
}

std::map<std::string, int> KindsOf(const std::vector<Json>& asked) {
  std::map<std::string, int> count;
  for (const Json& params : asked) ++count[params.GetString("kind")];
  return count;
}

double MeanDistanceTo(const Encoding& encoding, const Observations& seen, double centre,
                      const MobsterOptions& options = kModelOnly) {
  double sum = 0;
  for (uint64_t number = 1'000; number < 1'010; ++number)
    sum += DistanceTo(Asked(encoding, seen, number, options).point, centre) / 10;
  return sum;
}

// One trial at a time, without rungs; the best value.
double MobsterBest(const Encoding& encoding, size_t trials, uint64_t seed, bool is_even) {
  Observations seen;
  Mobster model(encoding, seed);
  double best = HUGE_VAL;
  for (uint64_t number = 0; number < trials; ++number) {
    Point point = is_even ? ScrambledSobol(seed, number, encoding.axes().size())
                          : model.Suggest(seen, number)->point;
    const double value = DistanceTo(point, 0.3);
    best = std::min(best, value);
    seen.finished.push_back({number, std::move(point), value});
  }
  return best;
}

Course Evolve(size_t axes, size_t trials, size_t in_flight = 1, const CmaOptions& options = {}) {
  return FollowModel<CmaEs>(SearchedCube(axes), trials, Basin, in_flight, 1, options);
}

Course Follow(size_t axes, size_t trials, size_t in_flight = 1) {
  return FollowModel<GpOptimizer>(SearchedCube(axes), trials, Basin, in_flight, 1, GpOptions());
}

}  // namespace

TEST_CASE("tpe: it finds the category and the integer that matter") {
  const Encoding encoding =
      SearchedSpace(R"({"c":{"choice":["a","b","d","e","f"]},"n":{"randint":[0,50]},
                     "x":{"uniform":[0,1]}})");
  const ScoredBy objective = [](const Point& p) {
    return (std::abs(p[0] - 0.7) < 0.05 ? 0.0 : 1.0) + std::abs(p[1] - 0.61) +
           (p[2] - 0.2) * (p[2] - 0.2);
  };
  const auto [tpe, random] = MeansOfTen(encoding, 80, objective);
  INFO(tpe << " against " << random);
  CHECK(tpe < 0.4 * random);
}

TEST_CASE("tpe: it beats random search clearly on smooth functions") {
  const Encoding encoding = SearchedSpace(
      R"({"a":{"uniform":[0,1]},"b":{"uniform":[0,1]},
          "c":{"uniform":[0,1]},"d":{"uniform":[0,1]}})");
  const ScoredBy valley = [](const Point& p) {  // A curved valley.
    double sum = 0;
    for (size_t i = 0; i + 1 < p.size(); ++i) {
      const double bend = p[i + 1] - p[i] * p[i];
      sum += 20 * bend * bend + (0.7 - p[i]) * (0.7 - p[i]);
    }
    return sum;
  };
  for (ScoredBy objective : {static_cast<ScoredBy>(Basin), valley}) {
    const auto [tpe, random] = MeansOfTen(encoding, 100, objective);
    INFO(tpe << " against " << random);
    CHECK(tpe < 0.25 * random);
  }
}

TEST_CASE("branches: a branch that no trial was in is found") {
  const TreeLoss loss = [](const Json& c) {
    return c.Find("rare") != nullptr ? 0.0 : c.GetString("kind") == "deep" ? 1.0 : 0.5;
  };
  int rare = 0;
  for (const Json& params : SearchTree(kTree, 300, Branching(), loss))
    rare += params.Find("rare") != nullptr ? 1 : 0;
  CHECK(rare >= 20);
}

TEST_CASE("branches: a branch that is better only once it is searched is not given up") {
  // Nearly everywhere b is worse than a.
  const char* const space = R"({"kind":{"choice":["a","b"]},
      "a":{"if":{"kind":"a"},"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}},
      "b":{"if":{"kind":"b"},"x":{"uniform":[0,1]},"y":{"uniform":[0,1]},"z":{"uniform":[0,1]}}})";
  const TreeLoss loss = [](const Json& c) {
    const Json& own = *c.Find(c.GetString("kind"));
    const double x = own.GetDouble("x") - 0.8, y = own.GetDouble("y") - 0.1;
    const double z = own.GetDouble("z") - 0.6;
    if (c.GetString("kind") == "a") return 0.5 + 0.1 * (x * x + y * y);
    return 60 * (x * x + y * y + z * z);
  };
  int found = 0, found_without = 0;  // By searches of eight seeds.
  for (uint64_t seed = 0; seed < 8; ++seed) {
    found += KindsOf(SearchTree(space, 120, Branching(), loss, seed))["b"] >= 60 ? 1 : 0;
    found_without += KindsOf(SearchTree(space, 120, {}, loss, seed))["b"] >= 60 ? 1 : 0;
  }
  CHECK(found >= 5);
  CHECK(found_without <= 3);  // As version 1: the trials of both branches are compared.
}

TEST_CASE("noise: what looks best after a search by tpe is better with smooth values") {
  const Encoding encoding = SearchedSpace(kMobsterSquare);
  const auto regret = [&](const TpeOptions& options) {
    double sum = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Observations seen;
      Rng noise(seed, 77);
      double least = HUGE_VAL, value = 0;
      for (uint64_t number = 0; number < 120; ++number) {
        Point point = SuggestTpe(encoding, seen, seed, number, options)->point;
        const double told = Valley(point) + 0.05 * noise.Normal();
        if (told < least) value = Valley(point);
        least = std::min(least, told);
        seen.finished.push_back({number, std::move(point), told});
      }
      sum += value;
    }
    return sum / 20;
  };
  const double smooth = regret(TpeDefaults(kTpeVersion)), rough = regret(TpeDefaults(2));
  INFO(smooth << " instead of " << rough);
  CHECK(smooth < 0.8 * rough);
}

TEST_CASE("mobster: a part of the trials is spread evenly, most of them at first") {
  const Encoding square = SearchedSpace(kMobsterSquare);
  const auto even_of = [&](const Observations& seen) {
    int even = 0;
    Mobster model(square, 1);  // One for all, so that it learns once.
    for (uint64_t number = 0; number < 200; ++number)
      even += model.Suggest(seen, number)->milestone.has_value() ? 0 : 1;
    return even;
  };
  Observations seen = Opposed(square, 12, 12);
  CHECK(even_of(seen) == 200);  // None was trained to its end.
  for (uint64_t number = 0; number < 60; ++number) {
    seen.finished.push_back(
        {100 + number, ScrambledSobol(3, number, 2), 0.1 * static_cast<double>(number % 7)});
    if (number == 7) CHECK(std::abs(even_of(seen) - 100) < 30);
  }
  CHECK(std::abs(even_of(seen) - 40) < 20);
}

TEST_CASE("mobster: it comes far closer to a minimum than even points do") {
  const Encoding cube = SearchedSpace(R"({"a":{"uniform":[0,1]},"b":{"uniform":[0,1]},)"
                                      R"("c":{"uniform":[0,1]},"d":{"uniform":[0,1]}})");
  int wins = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed)
    wins += MobsterBest(cube, 60, seed, false) < 0.05 * MobsterBest(cube, 60, seed, true) ? 1 : 0;
  CHECK(wins >= 4);
}

TEST_CASE("mobster: where most trials are bad, it searches among the good ones") {
  const Encoding encoding = SearchedSpace(kMobsterSquare);
  const auto error = [](const Point& x) {
    return x[0] > 0.45 ? 0.9 : 0.02 + 0.1 * DistanceTo(x, 0.2);
  };
  const Observations seen = OpenTrials(encoding, 60, 20, error, error);
  MobsterOptions unstretched = kModelOnly;
  unstretched.stretches_best = false;
  const double distance = MeanDistanceTo(encoding, seen, 0.2);
  const double before = MeanDistanceTo(encoding, seen, 0.2, unstretched);
  INFO("distance " << distance << ", unstretched " << before);
  CHECK(distance < 0.1);
  CHECK(distance < 0.5 * before);
}

TEST_CASE("mobster: what low rungs say counts until high ones say otherwise") {
  const Encoding square = SearchedSpace(kMobsterSquare);
  CHECK(MeanDistanceTo(square, Opposed(square, 30, 0), 0.2) < 0.05);
  CHECK(MeanDistanceTo(square, Opposed(square, 30, 30), 0.8) < 0.05);
  // A valley that rung 1 has and five values at rung 3, all far from it, cannot show.
  const auto valley = [](const Point& x) { return DistanceTo(x, 0.7); };
  Observations seen = OpenTrials(square, 40, 0, valley, valley);
  size_t at_third = 0;
  for (FlyingTrial& trial : seen.in_flight) {
    if (at_third == 5 || valley(trial.point) < 0.3) continue;
    trial.rungs.push_back({3, 10 + 2 * valley(trial.point)});
    ++at_third;
  }
  REQUIRE(at_third == 5);
  REQUIRE(Asked(square, seen).milestone == 3);
  CHECK(MeanDistanceTo(square, seen, 0.7) < 0.15);  // Even points: 0.25.
}

TEST_CASE("gp: it comes far closer to a minimum than random points do") {
  CHECK(Follow(1, 20).best < 1e-6);
  CHECK(Follow(2, 25).best < 1e-6);
  CHECK(Follow(6, 40).best < 1e-4);
  CHECK(Follow(6, 50, 8).best < 1e-3);
}

TEST_CASE("gp: with many axes most proposals are near the best trial") {
  const Course course = Follow(20, 45);
  CHECK(course.best < Basin(Point(20, 0.5)) / 4);
}

TEST_CASE("cma: it comes far closer to a minimum than random points do") {
  CHECK(Evolve(1, 40).best < 1e-6);
  CHECK(Evolve(2, 60).best < 1e-6);
  CHECK(Evolve(6, 100).best < 1e-4);
  CHECK(Evolve(6, 100, 8).best < 1e-2);
}

TEST_CASE("cma: forty axes are searched, and more than the model takes at once") {
  CmaOptions options;
  options.model_trials = 80;
  const Course run = Evolve(40, 110, 1, options);
  CHECK(run.best < Basin(Point(40, 0.5)) * 2);
}
