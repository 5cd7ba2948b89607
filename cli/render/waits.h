// Why things wait, as `status` says it: equal reasons are one line, whatever waits for them. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/json.h"

namespace rt {

struct WaitGroup {
  int64_t count = 0;
  std::string first;  // The id of the first that waits: "3/20", "job 2".
  std::string reason;
  Json needs, since;  // Of the first.
};

// The most frequent reasons first. `prefix`: "3/" for those of one experiment, "" for all.
std::vector<WaitGroup> GroupWaits(const Json& status, const std::string& prefix);
// "3/20 and 98 more".
std::string WhoWaits(const WaitGroup& group);

}  // namespace rt
