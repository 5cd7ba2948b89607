// The options that all search models have: configurations to begin with, and results that are known
// already.
#pragma once

#include <vector>

#include "common/spec/algorithm.h"

namespace rt {

inline constexpr char kEvaluatedOption[] = "evaluated";
inline constexpr char kWarmStartOption[] = "warm_start";

inline std::vector<AlgorithmOption> GivenOptions() {
  using Type = AlgorithmOption::Type;
  return {{.name = "points",
           .type = Type::kPoints,
           .default_value = Json::MakeArray(),
           .meaning = "Configurations, or parts of them, that the first trials take as they are"},
          {.name = kEvaluatedOption,
           .type = Type::kEvaluated,
           .default_value = Json::MakeArray(),
           .meaning = "Results that are known: the search learns from them and does not run them"},
          {.name = kWarmStartOption,
           .type = Type::kExperiments,
           .default_value = Json::MakeArray(),
           .meaning = "Earlier experiments whose results the search learns from"}};
}

}  // namespace rt
