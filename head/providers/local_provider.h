// LocalProvider keeps the worker daemons of this machine alive: one thread watches them by pidfd
// and starts a dead one again at once; one that keeps dying right after its start is given time. A
// provider that starts anew (after the head died) recognises its workers by pid and start time and
// never starts a second one. Thread-safe after Start.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace rt {

struct LocalWorker {
  std::string name;       // "worker-1"; its directory's name too.
  std::string resources;  // As rt-worker's --resources takes it; empty: what it finds.
  std::string labels;     // As --labels takes it; may be empty.
};

class LocalProvider {
 public:
  struct Options {
    std::string cluster_dir;   // Holds one directory per worker.
    std::string program;       // rt-worker.
    std::string head_address;  // "127.0.0.1:4242"
    std::vector<LocalWorker> workers;
    // A new join token's text, for a worker that has no certificate yet. May block.
    std::function<absl::StatusOr<std::string>()> make_token;
  };
  static std::unique_ptr<LocalProvider> Start(Options options);
  virtual ~LocalProvider() = default;  // Stops watching; leaves the workers alone.
  // SIGTERM to all, SIGKILL to those that are still there after 10 s. Returns when they are gone.
  virtual void Terminate() = 0;
};

}  // namespace rt
