// Request keys: a request that is repeated under the same key gets the first answer again. A key
// belongs to the user who chose it and to the specification it came with.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "head/core/state.h"

namespace rt {

// What the user's key was answered with; null when it is new. AlreadyExists when the user asked for
// something else with it: a specification is the same when it is equal without those parts which a
// driver that is run again draws anew (python/rt/tune/_run.py leaves them out of its keys as well).
absl::StatusOr<const Request*> FindRequest(const State& state, const std::string& owner,
                                           const std::string& key, const Json& spec);

// The experiment that the user's key was answered with; null when the key is new. AlreadyExists
// also when the key was used for a job.
absl::StatusOr<const Experiment*> FindCreated(const State& state, const std::string& owner,
                                              const std::string& key, const Json& spec);

// The name under which Apply keeps the user's key in state.requests: the key itself, as in journals
// of earlier releases, unless another user has it.
std::string RequestSlot(const State& state, const std::string& owner, const std::string& key);

}  // namespace rt
