#include "common/elastic/knapsack.h"

#include <algorithm>

namespace rt {

std::vector<std::optional<size_t>> SolveKnapsack(const std::vector<std::vector<KnapsackItem>>& rows,
                                                 uint32_t capacity) {
  // best[i][g]: the largest value of the first i rows within g. Which item gave it is found again
  // on the way back, because the same sum has the same bits; so the inner loop only adds and
  // compares.
  const size_t width = capacity + size_t{1};
  std::vector<double> best((rows.size() + 1) * width, 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double* __restrict before = &best[i * width];
    double* __restrict after = &best[(i + 1) * width];
    std::copy(before, before + width, after);
    for (const KnapsackItem& item : rows[i])
      for (size_t g = item.weight; g < width; ++g) {
        const double sum = before[g - item.weight] + item.value;
        after[g] = sum > after[g] ? sum : after[g];
      }
  }
  std::vector<std::optional<size_t>> taken(rows.size());
  size_t left = capacity;
  for (size_t i = rows.size(); i-- > 0;) {
    const double* before = &best[i * width];
    const double value = best[(i + 1) * width + left];
    if (value == before[left]) continue;
    for (size_t k = 0; k < rows[i].size(); ++k) {
      const KnapsackItem& item = rows[i][k];
      if (item.weight > left || before[left - item.weight] + item.value != value) continue;
      taken[i] = k;
      left -= item.weight;
      break;
    }
  }
  return taken;
}

}  // namespace rt
