// What the trial socket and the worker loop need of checkpoints on their way to the store;
// worker/checkpoint implements it. Any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/session/live_attempt.h"

namespace rt::worker {

struct CheckpointFiles {
  std::string path;    // A directory or a file.
  bool given = false;  // It is not needed there any more: it may be moved.
};

class CheckpointPushes {
 public:
  virtual ~CheckpointPushes() = default;
  // The checkpoint's number once it is committed (0: it was before, under one not known any more),
  // or why it never will be.
  using Done = std::function<void(absl::StatusOr<uint64_t>)>;
  // Blocks until the files are taken: from then on the trial may change or remove them, and this
  // daemon may be killed. `done` follows, from any thread, unless the attempt is forgotten or this
  // daemon ends. What was taken already, by an earlier daemon say, is not taken again.
  virtual absl::Status Take(std::shared_ptr<LiveAttempt> attempt, const SpoolRow& row,
                            const CheckpointFiles& files, Done done) = 0;
  // Continues with what earlier daemons took.
  virtual void Recover(std::shared_ptr<LiveAttempt> attempt) = 0;
  // Whether something of it is still on its way; whether so much is that it should wait before it
  // gives more.
  virtual bool Has(const Fence& fence) const = 0;
  virtual bool IsFull(const Fence& fence) const = 0;
  // Whether the store lacks some of its committed checkpoints that have a replica here.
  virtual bool HasUnstored(const Owner& owner) const = 0;
  // Its checkpoints are not needed any more.
  virtual void Forget(const Fence& fence) = 0;
};

}  // namespace rt::worker
