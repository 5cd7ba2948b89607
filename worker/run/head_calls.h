// What the trial socket needs of the head; worker/link implements it over gRPC.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "worker/run/spool.h"

namespace rt::worker {

class HeadCalls {
 public:
  virtual ~HeadCalls() = default;
  // Blocks. The checkpoint's number, or 0: the parts of other ranks are missing. FailedPrecondition
  // when the fence is stale.
  virtual absl::StatusOr<uint64_t> CommitCheckpoint(const Fence& fence, const std::string& manifest,
                                                    const SpoolRow& row, Bytes bytes) = 0;
  // `done` gets the answer's JSON, on any thread.
  virtual void DriverCall(const Fence& fence, std::string json,
                          std::function<void(absl::StatusOr<std::string>)> done) = 0;
};

}  // namespace rt::worker
