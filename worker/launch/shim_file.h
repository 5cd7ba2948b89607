// What rt-shim writes about one launch, <run directory>/shim: lines "KEY VALUE", appended:
//   shim PID STARTTIME BOOT_ID     first of all; a second one when a warm start came to nothing:
//                                  what stands before it does not count
//   group SOCKET                   the shim is that of a group (shim_group.h)
//   not_started                    by a group: it was not, and never will be, by this shim
//   program PID STARTTIME BOOT_ID  the user's process, once exec succeeded
//   exit_code N, signal N, launch_failed 0|1, reason TEXT, ended
//                                  in one write: the last thing the shim does
//   over_memory TEXT               by a daemon that killed it for it
//   witnessed                      by a daemon that saw it end
// One file, because a launch should cost few of them, and not synced: every process may be killed,
// but of what a machine ran before it went down nothing counts, because its rows were not synced
// either. The trial resumes from its checkpoint, as when the machine had not come back. Reading
// never fails: what is not there is absent, and a torn line counts as not there.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/run/subprocess.h"
#include "worker/core/worker_core.h"

namespace rt::worker {

struct ShimFile {
  bool has_shim = false;                // A shim was there, in this boot or an earlier one.
  std::optional<ProcessIdentity> shim;  // Of this boot only, as everything that follows.
  std::optional<ProcessIdentity> program;
  bool not_started = false;
  std::string group;  // The group's socket; empty: a shim of its own.
  std::optional<ExitFacts> exit;
  std::string over_memory;  // Why it was killed, if that is why.
};
ShimFile ReadShimFile(const std::string& path);
absl::Status NoteWitnessed(const std::string& path);
absl::Status NoteOverMemory(const std::string& path, const std::string& why);

}  // namespace rt::worker
