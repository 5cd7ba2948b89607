// Which nodes belong to the cluster, as far as it is durable: what every call with a node's
// certificate is held against. Written by the core thread, read by any.
#pragma once

#include <functional>
#include <map>
#include <shared_mutex>

#include "head/core/core.h"

namespace rt {

// Runs it only when the status is OK.
std::function<void(absl::Status)> UnlessFailed(std::function<void()> run);

class Members {
 public:
  enum class Standing {
    kMember,
    kGone,
    kUnknown,  // Its identity was given out by a head whose journal this one does not have.
  };
  Standing Of(NodeId node) const;
  // OK for a member. PermissionDenied for a node that is gone; Unavailable for one that this head
  // does not know, because another head may.
  absl::Status Check(NodeId node) const;

  void Begin(const State& state);
  // What the records change, to be run once they are durable; null when they change nothing.
  std::function<void()> ChangeOf(const std::vector<Record>& records);

 private:
  mutable std::shared_mutex mutex_;
  std::map<NodeId, bool> gone_;  // By node, whether it is gone.
};

}  // namespace rt
