// Stops the processes of an attempt where they are, and lets them continue (docs/adr/0043): what
// they have on gpus moves to the host by rt-gpu-suspend, then each of them gets SIGSTOP. What was
// done is noted in a file of the run directory, so that a daemon that starts can finish or undo it.
// Calls block for as long as that takes, and belong on a pool; one at a time for an attempt.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/limits.h"
#include "common/base/time.h"
#include "common/run/subprocess.h"
#include "common/spec/gpu_facts.h"
#include "worker/core/worker_core.h"

namespace rt::worker {

// The file: "STEP ROUND SINCE TOTAL [PID…]", of this boot or an earlier one. Not synced, for the
// reason of shim_file.h.
struct FreezeNote {
  FreezeStep step = FreezeStep::kNone;
  uint32_t round = 0;
  Millis since = 0;          // When it was frozen, by this machine's clock; 0: it is not.
  Millis total = 0;          // Of the freezes that are over.
  std::set<pid_t> gpu_pids;  // Whose memory of gpus has moved, or is about to.
};
// One that is absent or torn is empty.
FreezeNote ReadFreezeNote(const std::string& path);
absl::Status WriteFreezeNote(const std::string& path, const FreezeNote& note);

struct FreezeJob {
  ProcessIdentity program;  // Its tree is stopped,
  std::string token;        // and with it what else has this RT_TOKEN; "": nothing.
  std::string note;         // Path.
  uint32_t round = 0;
  bool has_gpus = false;
  std::string gpu_hang;  // Why nobody knows who uses them: it is not frozen. "": that is known.
  std::vector<GpuProcess> gpu_users;  // Who holds memory of those that are its alone.
  Bytes gpu_memory = 0;    // That moves to the host: what it used at most.
  Bytes memory_limit = 0;  // Of the attempt; 0: none.
};

struct FreezeEnd {
  std::string why;         // "": it is done.
  bool is_broken = false;  // Neither this nor the state before: it has to be ended.
};

class Freezer {
 public:
  // `bin_dir` has rt-gpu-suspend, which may take `ask_most` for one process.
  explicit Freezer(std::string bin_dir, Millis ask_most = limits::kFreezeMost / 2)
      : bin_dir_(std::move(bin_dir)), ask_most_(ask_most) {}

  // Repeats nothing that was done. When it fails, the attempt runs as before.
  FreezeEnd Freeze(const FreezeJob& job) const;
  FreezeEnd Thaw(const FreezeJob& job) const;

 private:
  FreezeEnd MoveToHost(const FreezeJob& job, FreezeNote& note) const;
  FreezeEnd MoveBack(const FreezeJob& job, FreezeNote& note) const;
  FreezeEnd Undo(const FreezeJob& job, FreezeNote& note, const std::string& why) const;
  // `action`, which must leave the process in this state. Why it failed; "": it did not.
  std::string Do(const std::string& action, pid_t pid, const std::string& state) const;
  // What rt-gpu-suspend says of the process; pid 0: of none.
  struct Answer {
    std::string state;     // "" when it fails,
    std::string why;       // and this says why.
    bool is_hung = false;  // It did not end in time, and would not for another process.
  };
  Answer Ask(const std::string& action, pid_t pid) const;

  const std::string bin_dir_;
  const Millis ask_most_;
};

}  // namespace rt::worker
