// Replicas of a checkpoint on other nodes, until the store has it; worker/link implements it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/base/ids.h"

namespace rt::worker {

class PeerReplicas {
 public:
  virtual ~PeerReplicas() = default;
  // Blocks until the best other node has fetched the tree, which was saved with that row and is on
  // this node, and has a replica on its disk; returns that node. Can be repeated.
  virtual absl::StatusOr<uint64_t> Replicate(const std::string& manifest, const Fence& fence,
                                             uint64_t row) = 0;
};

}  // namespace rt::worker
