// The auditor's book of what elastic jobs have measured. Part of auditor.h.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace rt::sim {

struct ProfileBook {
  AttemptId attempt;
  uint64_t seq = 0;
  Millis at = 0;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, uint64_t> counts;  // By shape.
};
// An elastic attempt that runs, as a policy is asked about it.
struct ElasticRun {
  AttemptId attempt;
  uint32_t held = 0, least = 1, most = 1;
  int64_t unit = 1;  // Of one rank: gpus where it asks for some, else cpus.
  bool by_gpu = false;
  int64_t priority = 0;
  friend bool operator==(const ElasticRun&, const ElasticRun&) = default;
};
// One of them with what it was given.
struct ElasticShareBook {
  ElasticRun run;
  double units = 1;  // Of one rank, in ranks of the smallest.
  bool fixed = false;
  uint32_t ranks = 0;
};
struct ElasticBook {
  // By the record from which on they were these, and its time.
  std::map<uint64_t, std::pair<Millis, std::vector<ElasticRun>>> seen;
  std::map<Owner, ProfileBook> profiles;
  std::map<std::string, uint64_t> classes;  // The record that first measured something.
  bool has_forgotten = false;
  // In this transaction: the new sizes of those that the head shrinks while nobody of at least
  // their priority waits.
  std::map<AttemptId, uint32_t> unexplained;
};

}  // namespace rt::sim
