// Writes what people look at, below each experiment's results_dir: a directory per trial with
// result.json, progress.csv and params.json. A thread of its own tails the journal with a durable
// cursor and keeps a replica of the state, so the core thread never waits for it; it hands what
// concerns an experiment to that experiment's queue (experiment_sink.h), so that none waits for
// another one's directory. A results_dir that cannot be written (a full disk, no permission) is
// logged and told to the head, and is tried again; it never stops the head.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "common/run/result_roots.h"
#include "head/core/inputs.h"
#include "head/journal/journal.h"

namespace rt {

class ResultSinks {
 public:
  // Called on the sinks' thread when the cursor is durable, with what it says: everything up to
  // `seq` is written, but for experiments that are `behind`. Again when one of those has caught up.
  using FlushedFn = std::function<void(input::SinksFlushed flushed)>;

  struct Options {
    Millis retry_after = 5'000;  // Between tries to write a directory that refused.
    ResultRoots roots = ResultRoots({.results_root = "/"});
    // How long the cursor waits for the experiments that kept up so far: what they have written
    // need not be written again after a restart.
    Millis cursor_wait = 100;
  };
  // The cursor lives in `state_dir`/results.cursor. The replica is replayed up to it on the sinks'
  // thread: the head need not wait for that.
  static absl::StatusOr<std::unique_ptr<ResultSinks>> Start(Journal& journal,
                                                            const std::string& state_dir,
                                                            FlushedFn flushed, Options options);
  static absl::StatusOr<std::unique_ptr<ResultSinks>> Start(Journal& journal,
                                                            const std::string& state_dir,
                                                            FlushedFn flushed) {
    return Start(journal, state_dir, std::move(flushed), Options{});
  }
  virtual ~ResultSinks() = default;  // Writes down what is durable, then stops the thread.

  // Something new is durable; any thread (HeadLoop::OnDurable).
  virtual void Wake() = 0;
};

}  // namespace rt
