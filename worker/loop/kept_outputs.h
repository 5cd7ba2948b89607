// What the worker loop needs of the outputs of attempts that are over, and what keeps them needs of
// the head; worker/checkpoint and worker/link implement it. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "worker/launch/launch_body.h"
#include "worker/session/written.h"

namespace rt::worker {

// For each attempt in this order: Expect, Take unless it was never started, Keep.
class OutputKeeps {
 public:
  virtual ~OutputKeeps() = default;
  // The attempt is about to be observed no more: until its outputs are kept it is pending.
  virtual void Expect(const Fence& fence) = 0;
  // Its program has ended and nobody else needs its directories: takes them out of the run
  // directory if anything in them may be new. `whole_seq`: of several ranks, the newest row whose
  // checkpoint is complete, as far as known. Quick.
  virtual void Take(const LaunchBody& body, const RunDir& dir, uint64_t whole_seq) = 0;
  // Its run directory is gone: what was taken is kept from now on.
  virtual void Keep(const Fence& fence) = 0;
  // Attempts whose outputs are not kept yet, at most limits::kOutputsWaitingMax.
  virtual std::vector<Fence> Pending() const = 0;
  // So much waits for the head or the store that nothing new should start.
  virtual bool IsFull() const = 0;
};

// The outputs of one rank that are in the store.
struct SentOutputs {
  std::string manifest;  // Empty: all of them were left out.
  uint64_t files = 0;
  Bytes bytes = 0;
  std::vector<std::string> paths;  // All of them.
  std::vector<NotKept> left_out;   // The largest first.
  Bytes left_out_bytes = 0;
};

class OutputCalls {
 public:
  virtual ~OutputCalls() = default;
  // Blocks. FailedPrecondition: nobody wants them. Unavailable: later.
  virtual absl::Status KeepOutputs(const Fence& fence, const SentOutputs& outputs) = 0;
};

}  // namespace rt::worker
