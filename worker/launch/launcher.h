// Starts what the core wants started, and finds it again after a restart of the daemon. Everything
// it knows is on disk below <state>/attempts/<fence>; the process that lives is rt-shim's child,
// not ours. Thread-safe; Prepare and Launch block and belong on a pool.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run/subprocess.h"
#include "worker/core/worker_core.h"
#include "worker/launch/launch_env.h"
#include "worker/launch/launch_lock.h"
#include "worker/launch/port_keeper.h"
#include "worker/launch/preflight.h"
#include "worker/launch/run_dirs.h"
#include "worker/launch/shim_forker.h"
#include "worker/launch/warm_servers.h"
#include "worker/limits/cgroup.h"
#include "worker/trees/tree_cache.h"

namespace rt::worker {

struct LauncherOptions {
  std::string state_dir;
  std::string runtime_dir;  // Short and 0700: for sockets.
  NodeFacts node;
};

class Launcher {
 public:
  Launcher(LauncherOptions options, TreeFetcher& fetcher);

  // Makes the run directory: bundle, inputs, checkpoint, configuration. Sets our part of `body`.
  absl::Status Prepare(LaunchBody& body);
  struct Started {
    uint64_t pid = 0;  // Of the user's process.
    int warm = -1;     // Or a connection to a warm-start server that will say (WarmServers::Reply).
  };
  // An error says why nothing runs; it is final. What to watch follows by Watch. `may_be_warm`:
  // a warm-start server may start it.
  absl::StatusOr<Started> Launch(const LaunchBody& body, bool may_be_warm);
  // Something readable once its shim is done with it: a pidfd, or a connection to its group; -1
  // when it is gone already.
  int Watch(const Fence& fence);
  // Whether its group has given it to the warm-start server, and so may have started it.
  bool WasForked(const Fence& fence) const;
  // How it ended, once the shim is gone. `alive`: this daemon was there when the shim ended. The
  // exit is witnessed, which is remembered on disk, if a daemon was there when the program ended; a
  // signal from outside counts only for a program that this very daemon started, because a machine
  // that is taken down kills the daemon and its programs in any order.
  ExitFacts ReadExit(const Fence& fence, bool alive);
  void Signal(const Fence& fence, bool kill);
  // Kills it, and remembers why.
  void EndForMemory(const Fence& fence, const std::string& why);
  // Whether the kernel keeps the attempt within its memory.
  bool IsHeld(const Fence& fence) const { return cgroups_.HoldsMemory(fence); }
  // SIGUSR2, a wish for a checkpoint, if the program listens for it; whether it does.
  bool Notify(const Fence& fence);
  // SIGQUIT, a wish for its stacks in its log, if the program listens for it or `forced`; whether
  // it was sent.
  bool AskForStacks(const Fence& fence, bool forced);
  // Removes what the program left, and keeps its logs for a while (RunDirs).
  void Forget(const Fence& fence);

  struct Found {
    LaunchBody body;
    uint64_t pid = 0;
    std::optional<ExitFacts> exit;
  };
  // What earlier daemons started. Directories of what never started are removed.
  std::vector<Found> Recover();

  RunDir DirOf(const Fence& fence) const;
  std::string SocketOf(const Fence& fence) const;
  WarmServers& warm() { return warm_; }
  const std::string& bin_dir() const { return options_.node.bin_dir; }
  Preflights& preflights() { return preflights_; }
  TreeCache& bundles() { return cache_; }
  // Ends what starts programs; the programs keep running.
  void Stop();
  // The newest barrier that the ranks of an attempt have passed, kept for as long as rank 0's logs
  // are; 0: none. It need not outlive the machine, whose end is that of rank 0 as well. Without it
  // ranks elsewhere may wait in vain after a restart of this daemon: a failure is only logged.
  void KeepBarrier(const AttemptId& attempt, uint64_t passed);
  uint64_t KeptBarrier(const AttemptId& attempt) const;
  // Where the logs are now; "" when there are none.
  std::string LogsOf(const Fence& fence) const;

 private:
  // The unpacked bundle; "" when there is none.
  absl::StatusOr<std::string> TreeOf(const LaunchBody& body);
  std::string ShimSpec(const LaunchBody& body, const std::string& cwd,
                       const std::vector<std::string>& inputs) const;
  // What the shim says of its start: a pid, or nothing where it did not start.
  absl::StatusOr<std::string> AskForShim(const LaunchBody& body);
  absl::StatusOr<uint64_t> LaunchCold(const LaunchBody& body);
  std::optional<Found> RecoverOne(const Fence& fence);

  const LauncherOptions options_;
  TreeFetcher& fetcher_;
  RunDirs dirs_;
  TreeCache cache_;
  const Cgroups cgroups_;
  LaunchLock launch_lock_;
  WarmServers warm_;
  Preflights preflights_;
  PortKeeper ports_;
  std::mutex mutex_;
  ShimForker forker_;
  std::set<Fence> started_;       // By this daemon.
  std::set<Fence> ended_unseen_;  // Dead when we came, while their shims still lived.
};

}  // namespace rt::worker
