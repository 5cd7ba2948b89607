// Searches of a space with conditions by TPE, as its tests follow them.
#pragma once

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "common/search/tpe.h"
#include "tests/unit/search_course.h"

namespace rt {

// "none" is one configuration; `rare` exists in one of a hundred, and decides about a third level.
inline const char* const kTree = R"({
  "kind": {"choice": ["none", "flat", "deep"]},
  "flat": {"if": {"kind": "flat"}, "n": {"randint": [0, 3]}},
  "deep": {"if": {"kind": "deep"}, "x": {"uniform": [0, 1]}, "y": {"loguniform": [1e-3, 1]}},
  "rare": {"choice": ["u", "v"], "if": {"deep/x": {">=": 0.97}}}})";

inline TpeOptions Branching() {
  TpeOptions options;
  options.branch_exploration = 3;
  return options;
}

using TreeLoss = double (*)(const Json& params);

// A search with one trial in flight: its configurations in order.
inline std::vector<Json> SearchTree(const char* space, size_t trials, const TpeOptions& options,
                                    TreeLoss loss, uint64_t seed = 3) {
  const Encoding encoding = SearchedSpace(space);
  Observations seen;
  std::vector<Json> asked;
  for (uint64_t number = 0; number < trials; ++number) {
    Point point = SuggestTpe(encoding, seen, seed, number, options)->point;
    CHECK(encoding.Snap(point) == point);
    asked.push_back(encoding.Decode(point));
    seen.finished.push_back({number, std::move(point), loss(asked.back())});
  }
  return asked;
}

}  // namespace rt
