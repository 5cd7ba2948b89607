// `rt-head --standby`: follows the journal of the head that leads, keeps the state as it would have
// it, and comes back when the lead is free. Taking it is then what every start does, fence and all;
// the state is at hand. Used by main, before anything is served.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/cas/object_store.h"
#include "head/core/core.h"
#include "head/journal/journal.h"

namespace rt {

struct Followed {
  std::unique_ptr<Journal> local;  // Of a shipped log: the copy that this head continues with.
  World world;                     // Up to some record near the end.
};
// Waits so many ms; false: the process is to end.
using GoOn = std::function<bool(Millis)>;

// Both wait until the lead is free. Cancelled when the process is to end. What cannot be reached is
// retried without end: a standby has nothing better to do.
absl::StatusOr<Followed> FollowShippedLog(ObjectStore& store, const std::string& state_dir,
                                          const GoOn& go_on);
absl::StatusOr<Followed> FollowPostgres(const std::string& url, const std::string& holder,
                                        const GoOn& go_on);

}  // namespace rt
