// The auditor's book of what elastic jobs have measured. Part of auditor.h.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace rt::sim {

struct ProfileBook {
  AttemptId attempt;
  uint64_t seq = 0;
  Millis at = 0;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, uint64_t> counts;  // By shape.
};
struct ElasticBook {
  std::map<Owner, ProfileBook> profiles;
  std::map<std::string, uint64_t> classes;  // The record that first measured something.
  bool has_forgotten = false;
};

}  // namespace rt::sim
