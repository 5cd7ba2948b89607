// The multiple-choice knapsack: of each row at most one item, so that the sum of the values is as
// large as possible and the sum of the weights fits the capacity. Exact, by dynamic programming:
// time and memory grow with rows * capacity. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rt {

struct KnapsackItem {
  uint32_t weight = 0;  // At least 1.
  double value = 0;     // Above 0.
};
// For each row the index of the item that is taken, or none.
std::vector<std::optional<size_t>> SolveKnapsack(const std::vector<std::vector<KnapsackItem>>& rows,
                                                 uint32_t capacity);

}  // namespace rt
