#include "common/search/history.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rt {

std::vector<size_t> BestAndEven(const std::vector<double>& values, size_t most) {
  std::vector<size_t> chosen;
  if (values.size() <= most) {
    for (size_t i = 0; i < values.size(); ++i) chosen.push_back(i);
    return chosen;
  }
  std::vector<std::pair<double, size_t>> ranked;
  for (size_t i = 0; i < values.size(); ++i)
    ranked.emplace_back(std::isfinite(values[i]) ? values[i] : HUGE_VAL, i);
  std::sort(ranked.begin(), ranked.end());
  const size_t best = most / 2, others = most - best, rest = ranked.size() - best;
  for (size_t i = 0; i < best; ++i) chosen.push_back(ranked[i].second);
  for (size_t i = 0; i < others; ++i) chosen.push_back(ranked[best + i * rest / others].second);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace rt
