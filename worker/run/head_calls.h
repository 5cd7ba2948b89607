// What the trial socket needs of the head; worker/link implements it over gRPC.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "worker/run/spool.h"

namespace rt::worker {

// What is on its way from a trial, once it is safe.
struct SafeCheckpoint {
  std::string manifest;
  Bytes bytes = 0;
  bool is_replica = false;      // By this node, for the store.
  std::vector<uint64_t> peers;  // And by these.
};
// What becomes of one that is held.
enum class ReplicaStatus { kNone = 0, kStored = 1, kGone = 2 };  // As in KeepCheckpointRequest.
struct ReplicaQuestion {
  Fence fence;  // Of the rank that saved it.
  std::string manifest;
  ReplicaStatus status = ReplicaStatus::kNone;
  bool early = false;  // Its commit may be on its way, as far as is known here.
  uint64_t row = 0;    // That it was saved with; 0: not known.
};
struct ReplicaDuty {
  bool needed = false;    // It is to be held on.
  bool push = false;      // This node is to push it.
  bool release = false;   // Not needed: no commit of it can come any more.
  bool commit_pending = false;  // Not needed, but one may.
};

class HeadCalls {
 public:
  virtual ~HeadCalls() = default;
  // Blocks. The checkpoint's number, or 0: the parts of other ranks are missing. FailedPrecondition
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
