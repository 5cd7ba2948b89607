// A cluster whose daemons run on this machine, below one directory: starting its head, finding it
// dead and starting it again, and making sure that nothing is left of it. The head's local provider
// starts and restarts the workers. Every function may be called by several processes at once (an
// flock on <directory>/start-lock orders them); an object is used under its owner's lock.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/client/home.h"
#include "common/base/time.h"
#include "common/run/subprocess.h"
#include "common/yaml/cluster_spec.h"

namespace rt {

class LocalCluster {
 public:
  // `lifeline_fd`: the read end of a pipe whose closing ends the head; -1: none. `head_flags`: more
  // arguments of rt-head.
  explicit LocalCluster(std::string directory, int lifeline_fd = -1,
                        std::vector<std::string> head_flags = {})
      : directory_(std::move(directory)), lifeline_fd_(lifeline_fd),
        head_flags_(std::move(head_flags)) {}

  const std::string& directory() const { return directory_; }
  // Writes config.json for the head. When it changes under a living head, that ends (the next
  // EnsureHead starts it anew), and so do the daemons of workers that change; those that are no
  // longer wanted go with all they run.
  // `more`: what else the head's configuration has, such as `journal`, or lacks: what is null.
  absl::Status Configure(const std::string& name, const std::vector<WorkerShape>& workers,
                         const Json& more) const;
  bool HeadIsAlive() const;
  // Starts the head unless it is alive, and waits until it has written its address. Cancelled when
  // it was told to end meanwhile.
  absl::Status EnsureHead() const;
  absl::StatusOr<Context> Load() const { return LoadHeadContext(directory_ + "/head"); }
  // Waits for the daemons to be gone, kills what is left after `wait_for` ms, and then whatever
  // they had started. Removes their sockets, nothing else.
  absl::Status WaitGone(Millis wait_for) const;

 private:
  absl::Status Retire(const std::string& old_config, const std::string& new_config) const;
  absl::Status RetirePools(const std::string& old_config, const std::string& new_config) const;
  absl::Status StartHead() const;
  void RemoveRuntimeDirs() const;
  std::vector<ProcessIdentity> Daemons() const;

  std::string directory_;
  int lifeline_fd_;
  std::vector<std::string> head_flags_;
};

// The daemon that a pid file names; NotFound when there is none or it is dead. The file holds the
// pid and, after a space, its start time in clock ticks.
absl::StatusOr<ProcessIdentity> ReadPidFile(const std::string& path);
// SIGTERM, SIGKILL after 10 s; returns when it is gone.
absl::Status EndDaemon(const std::string& pid_file);

// Closed, and with it unlocked, at the end of the scope.
class StartLock {
 public:
  explicit StartLock(const std::string& path);
  ~StartLock();
  StartLock(const StartLock&) = delete;
  StartLock& operator=(const StartLock&) = delete;

 private:
  int fd_;
};

}  // namespace rt
