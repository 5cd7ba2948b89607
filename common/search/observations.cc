#include "common/search/observations.h"

#include <algorithm>
#include <cmath>

namespace rt {

bool IsBetterValue(double a, double b) { return std::isfinite(a) && (!std::isfinite(b) || a < b); }

std::vector<const FinishedTrial*> ByEnd(const Observations& seen) {
  std::vector<const FinishedTrial*> ordered;
  for (const FinishedTrial& trial : seen.finished) ordered.push_back(&trial);
  std::sort(ordered.begin(), ordered.end(), [](const FinishedTrial* a, const FinishedTrial* b) {
    return a->ended_at != b->ended_at ? a->ended_at < b->ended_at : a->number < b->number;
  });
  return ordered;
}

}  // namespace rt
