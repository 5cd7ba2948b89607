// What the trial socket needs of the head; worker/link implements it over gRPC.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "worker/session/spool.h"

namespace rt::worker {

// A checkpoint of a trial, once it is safe.
struct SafeCheckpoint {
  std::string manifest;
  Bytes bytes = 0;
  bool is_replica = false;      // This node has a replica, not the store.
  std::vector<uint64_t> peers;  // Other nodes with replicas.
};
// What became of a replica.
enum class ReplicaStatus { kNone = 0, kStored = 1, kGone = 2 };  // As in KeepCheckpointRequest.
struct ReplicaQuestion {
  Fence fence;  // Of the rank that saved it.
  std::string manifest;
  ReplicaStatus status = ReplicaStatus::kNone;
  bool early = false;  // Its commit may be pending, as far as is known here.
  uint64_t row = 0;    // That it was saved with; 0: not known.
};
struct ReplicaDuty {
  bool needed = false;          // The replica is still needed.
  bool push = false;            // This node uploads it to the store.
  bool release = false;         // Not needed, and no commit can follow.
  bool commit_pending = false;  // Not needed yet, but a commit may follow.
};

class HeadCalls {
 public:
  virtual ~HeadCalls() = default;
  // Blocks. The checkpoint's number, or 0: shards of other ranks are missing. FailedPrecondition
  // when the fence is stale.
  virtual absl::StatusOr<uint64_t> CommitCheckpoint(const Fence& fence, const SpoolRow& row,
                                                    const SafeCheckpoint& safe) = 0;
  // Blocks.
  virtual absl::StatusOr<ReplicaDuty> RenewReplica(const ReplicaQuestion& question) = 0;
  // `done` gets the answer's JSON, on any thread.
  virtual void DriverCall(const Fence& fence, std::string json,
                          std::function<void(absl::StatusOr<std::string>)> done) = 0;
};

}  // namespace rt::worker
