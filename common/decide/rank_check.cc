#include "common/decide/rank_check.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace rt {
namespace {

// Below this correlation the ranks of a rung are no better than chance.
constexpr double kCorrelationMin = 0.2;
constexpr double kCommonMin = 3;  // Times the reduction factor.

// The rank of each value from 0; equal ones share the mean of their ranks.
std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t from = 0, to = 0; from < order.size(); from = to) {
    while (to < order.size() && values[order[to]] == values[order[from]]) ++to;
    for (size_t i = from; i < to; ++i) ranks[order[i]] = static_cast<double>(from + to - 1) / 2;
  }
  return ranks;
}

double MeanOfValues(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The sum of the products of what a and b differ from their means.
double Covariation(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean_a = MeanOfValues(a), mean_b = MeanOfValues(b);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean_a) * (b[i] - mean_b);
  return sum;
}

void Split(const std::vector<CommonTrial>& trials, std::vector<double>& lower,
           std::vector<double>& upper) {
  for (const CommonTrial& trial : trials) {
    lower.push_back(trial.lower);
    upper.push_back(trial.upper);
  }
}

}  // namespace

std::vector<CommonTrial> CommonOf(const RungMembers& lower, const RungMembers& upper) {
  std::map<uint32_t, double> known;
  for (const RungMember& member : lower.members)
    if (!std::isnan(member.value)) known[member.trial] = member.value;
  std::vector<CommonTrial> common;
  for (const RungMember& member : upper.members)
    if (const auto found = known.find(member.trial);
        found != known.end() && !std::isnan(member.value))
      common.push_back({found->second, member.value});
  return common;
}

std::optional<double> RankCorrelation(const std::vector<CommonTrial>& trials) {
  if (trials.size() < 2) return std::nullopt;
  std::vector<double> lower, upper;
  Split(trials, lower, upper);
  const std::vector<double> a = RanksOf(lower), b = RanksOf(upper);
  const double spread = Covariation(a, a) * Covariation(b, b);
  if (spread == 0) return std::nullopt;
  return Covariation(a, b) / std::sqrt(spread);
}

bool RanksDiffer(const std::vector<CommonTrial>& trials, double tolerance) {
  if (trials.size() < 2) return false;
  std::vector<double> lower, upper;
  Split(trials, lower, upper);
  const double deviation =
      std::sqrt(Covariation(lower, lower) / static_cast<double>(trials.size()));
  std::vector<size_t> by_upper(trials.size());
  for (size_t i = 0; i < by_upper.size(); ++i) by_upper[i] = i;
  std::stable_sort(by_upper.begin(), by_upper.end(),
                   [&](size_t a, size_t b) { return upper[a] < upper[b]; });
  std::vector<double> places = lower;  // The lower value that each place has by the lower ranks.
  std::sort(places.begin(), places.end());
  for (size_t i = 0; i < places.size(); ++i)
    if (std::abs(lower[by_upper[i]] - places[i]) > tolerance * deviation) return true;
  return false;
}

double FirstTellingRung(const std::vector<const RungMembers*>& rungs, double factor) {
  if (rungs.empty()) return 0;
  size_t first = 0;
  for (; first + 1 < rungs.size(); ++first) {
    const std::vector<CommonTrial> common = CommonOf(*rungs[first], *rungs[first + 1]);
    if (static_cast<double>(common.size()) < kCommonMin * factor) break;
    const std::optional<double> correlation = RankCorrelation(common);
    if (!correlation || *correlation >= kCorrelationMin) break;
  }
  return rungs[first]->milestone;
}

std::vector<const RungMembers*> RungsOf(const SearchReview& review, uint32_t bracket) {
  std::vector<const RungMembers*> rungs;
  for (const RungMembers& rung : review.rungs)
    if (rung.bracket == bracket) rungs.push_back(&rung);
  std::sort(rungs.begin(), rungs.end(),
            [](const RungMembers* a, const RungMembers* b) { return a->milestone < b->milestone; });
  return rungs;
}

}  // namespace rt
