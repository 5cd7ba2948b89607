// The daemon's side of `rt-shim --nursery`, see worker/shim/fork_shims.h: starts shims by that
// process, and the process itself when there is none or it was killed. Thread-safe.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/run/subprocess.h"
#include "worker/launch/launch_lock.h"

namespace rt::worker {

class ShimForker {
 public:
  ShimForker(std::string state_dir, std::string bin_dir, LaunchLock& lock)
      : state_dir_(std::move(state_dir)), bin_dir_(std::move(bin_dir)), lock_(lock) {}
  ~ShimForker();
  // A shim for the run directory, which reads `input` and writes to `output`. Both stay open here.
  absl::Status Start(const std::string& run_dir, int input, int output);
  // Ends the process and waits for its end. Shims keep running.
  void Stop();

 private:
  absl::Status Open();
  void Close();

  const std::string state_dir_;
  const std::string bin_dir_;
  LaunchLock& lock_;
  std::mutex mutex_;
  std::optional<Subprocess> process_;
  int control_ = -1;
};

}  // namespace rt::worker
