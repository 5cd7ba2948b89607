// What a worker says of one rank that it hosts, with every Sync. Its list of fields is what the
// wire (rt.v1.Observed) is made of. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/spec/gpu_facts.h"

namespace rt {

// A user's exception, or the end of standard error.
struct ErrorInfo {
  std::string kind;  // The exception's class.
  std::string message;
  std::string traceback;
  RT_FIELDS(ErrorInfo, kind, message, traceback);
};

// A link between two nodes of a gang that its preflight found to carry less than was asked for: by
// their places in the gang (GROUP_RANK). Twice the same: that node's links to all others.
struct ObservedLink {
  uint32_t node = 0;
  uint32_t other = 0;
  double bus_gbps = 0;  // As measured.
  RT_FIELDS(ObservedLink, node, other, bus_gbps);
};

struct Observed {
  enum class Phase : uint8_t {
    kPreparing = 1,  // Bytes are on their way, or the process is being started.
    kRunning = 2,
    kExited = 3,
  };
  Fence fence;
  Phase phase = Phase::kPreparing;
  uint64_t pid = 0;        // Of the user's process, once running.
  uint32_t port = 0;       // Kept for the ranks to meet at, by rank 0's node; 0: none.
  uint64_t acked_seq = 0;  // Rows up to here were accepted, by this head or one before it.
  // The round of its freeze (DesiredAttempt::freeze) in which it is frozen now; 0: it is not.
  uint32_t frozen = 0;
  // The newest round in which it could not be frozen, and why. It runs, unless it is said to be
  // frozen or has exited.
  uint32_t freeze_refused = 0;
  std::string freeze_why;
  // The rest only when exited.
  int32_t exit_code = 0;
  int32_t signal = 0;
  bool witnessed = true;  // The daemon was alive when it exited.
  bool launch_failed = false;
  bool suspended = false;  // It ended because it was asked to save and end.
  bool orphaned = false;   // Its daemon ended it: no head had answered for too long.
  bool broken_checkpoint = false;  // It was not started: that is not what was saved.
  bool hung = false;               // Its watchdog ended it: no report for too long.
  std::set<uint32_t> log_matches;  // Of LaunchSpec::log_patterns: found in its log's end.
  uint64_t last_seq = 0;  // Of the rows it reported: the attempt ends once they are accepted.
  std::string reason;     // For people: "program not found: …".
  ErrorInfo error;
  // A fault of a gpu that it held while it ran: its failure is the machine's. Empty: none.
  std::string gpu_fault;
  // The program was not started, because its preflight failed without naming a gpu or a link.
  bool untested = false;
  GpuUse gpu;  // Also while it runs: so far.
  std::vector<ObservedLink> slow_links;  // Of a gang whose preflight failed for them.
  double bus_gbps = 0;  // What its preflight, which was well, measured between the gang's nodes.

  RT_FIELDS(Observed, fence, phase, pid, port, acked_seq, exit_code, signal, witnessed,
            launch_failed, suspended, orphaned, broken_checkpoint, hung, log_matches, last_seq,
            reason, error, gpu_fault, gpu, frozen, freeze_refused, freeze_why, slow_links, bus_gbps,
            untested);
};

}  // namespace rt
