#include "common/search/dehb.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "common/search/rungs.h"
#include "common/search/sobol.h"
#include "common/search/taken.h"

namespace rt {
namespace {

// One that is changed, and three others that change it.
constexpr size_t kMembersMin = 4;

struct Population {
  double milestone = 0;
  std::vector<FinishedTrial> members;  // The best first.
};

// The best trials at a rung. None where all values are equal: they say nothing.
std::vector<FinishedTrial> BestOf(std::vector<FinishedTrial> trials, size_t size) {
  std::erase_if(trials, [](const FinishedTrial& trial) { return !std::isfinite(trial.value); });
  std::sort(trials.begin(), trials.end(), [](const FinishedTrial& a, const FinishedTrial& b) {
    return std::pair(a.value, a.number) < std::pair(b.value, b.number);
  });
  if (!trials.empty() && trials.front().value == trials.back().value) trials.clear();
  if (trials.size() > size) trials.resize(size);
  return trials;
}

// That of the highest rung with a whole population; where no rung has one, the largest.
Population PopulationOf(const Observations& seen, const DehbOptions& options) {
  TrialsByRung rungs = RungsOf(seen);
  const size_t size = std::max(options.population_size, kMembersMin);
  Population largest;
  for (auto rung = rungs.rbegin(); rung != rungs.rend(); ++rung) {
    Population found{rung->first, BestOf(std::move(rung->second), size)};
    if (found.members.size() == size) return found;
    if (found.members.size() > largest.members.size()) largest = std::move(found);
  }
  return largest;
}

// Three members other than `parent`, all different.
std::array<size_t, 3> DrawThree(size_t size, size_t parent, Rng& rng) {
  std::array<size_t, 3> drawn{};
  for (size_t i = 0; i < drawn.size(); ++i) {
    const auto end = drawn.begin() + static_cast<std::ptrdiff_t>(i);
    do drawn[i] = rng.Below(size);
    while (drawn[i] == parent || std::find(drawn.begin(), end, drawn[i]) != end);
  }
  return drawn;
}

// Coordinates beyond the cube are drawn anew.
Point Offspring(const Population& from, uint64_t number, const DehbOptions& options, Rng& rng) {
  const size_t size = from.members.size();
  const size_t parent = number % size;
  const auto [a, b, c] = DrawThree(size, parent, rng);
  const auto at = [&](size_t member, size_t axis) { return from.members[member].point[axis]; };
  Point child = from.members[parent].point;
  const size_t changed = rng.Below(child.size());  // At least this one.
  for (size_t axis = 0; axis < child.size(); ++axis) {
    const bool crosses = rng.Chance(options.crossover);
    if (!crosses && axis != changed) continue;
    double moved = at(a, axis) + options.weight * (at(b, axis) - at(c, axis));
    if (!(moved >= 0 && moved <= 1)) moved = rng.Uniform();
    child[axis] = moved;
  }
  return child;
}

}  // namespace

std::optional<DehbAnswer> SuggestDehb(const Encoding& encoding, const Observations& observations,
                                      uint64_t seed, uint64_t number, const DehbOptions& options,
                                      const GiveUp& give_up) {
  if (give_up && give_up()) return std::nullopt;
  Rng rng(seed, number);
  const size_t axes = encoding.axes().size();
  DehbAnswer answer;
  const Population population = PopulationOf(observations, options);
  if (axes > 0 && population.members.size() >= kMembersMin) {
    answer.point = encoding.Snap(Offspring(population, number, options, rng));
    answer.milestone = population.milestone;
  } else {
    answer.point = encoding.Snap(ScrambledSobol(seed, number, axes));
  }
  answer.repeated = !Taken(encoding, observations).Avoid(answer.point, rng);
  return answer;
}

}  // namespace rt
