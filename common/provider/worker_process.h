// One local worker daemon as a process: started in a session of its own with its output in a log
// file, and found again by a later head through <dir>/pid and <dir>/pid.start. Used by one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run/subprocess.h"

namespace rt {

class WorkerProcess {
 public:
  WorkerProcess() = default;
  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&& other) noexcept;
  ~WorkerProcess();  // Forgets it; does not kill.

  static absl::StatusOr<WorkerProcess> Spawn(const std::string& directory,
                                             const std::vector<std::string>& argv);
  // The worker that an earlier head started there and that still runs; NotFound when there is none.
  static absl::StatusOr<WorkerProcess> Adopt(const std::string& directory);

  pid_t pid() const { return identity_.pid; }
  int pid_fd() const { return pid_fd_; }  // Readable once it has exited; -1: none.
  bool running() const { return pid_fd_ >= 0 && IsAlive(identity_); }
  void Kill(int signal) const;
  void Reap();  // After its exit: collects the zombie if it was our child.

 private:
  static absl::StatusOr<WorkerProcess> Watch(const ProcessIdentity& identity);
  ProcessIdentity identity_;
  int pid_fd_ = -1;
};

}  // namespace rt
