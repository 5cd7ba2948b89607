// LocalProvider keeps the worker daemons of this machine: one thread watches them by pidfd and
// starts a dead one again at once, unless it is to be removed; one that keeps dying right after its
// start is given time. A provider that starts anew (after the head died) recognises its workers by
// pid and start time and never starts a second one. Thread-safe after Start.
//
// A worker of a pool is a machine whose tag is the file `machine` in its directory: it exists once
// that file does, and is gone once the directory is.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/provider/node_provider.h"

namespace rt {

struct LocalWorker {
  std::string name;       // "worker-1"; its directory's name too.
  std::string resources;  // As rt-worker's --resources takes it; empty: what it finds.
  std::string labels;     // As --labels takes it; may be empty.
};

class LocalProvider : public NodeProvider {
 public:
  struct Options {
    ProviderContext context;                // Its cluster_dir holds one directory per worker.
    std::vector<LocalWorker> workers;       // They run without being asked for.
    std::map<std::string, uint32_t> slots;  // By pool: how many workers share this machine.
  };
  static std::unique_ptr<LocalProvider> Start(Options options);
};

}  // namespace rt
