// A parsed command line: what main.cc makes of argv with CLI11, and all that the commands see.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rt {

enum class Output { kTable, kJson, kQuiet };

struct Invocation {
  std::string cluster;  // -c
  Output output = Output::kTable;
  bool verbose = false;
  bool color = false;  // Of standard error: decided from --color, NO_COLOR and the terminal.
  bool color_out = false;  // The same of standard output.

  std::vector<std::string> words;      // Positional arguments of the verb.
  std::vector<std::string> arguments;  // After "--", untouched.

  bool start = false, stop = false, detach = false, follow = false, local = false;
  bool rows = false, wait = false;
  std::string name, args, experiment, from, role = "worker", ttl = "1h", reason, stream;
  std::string gpu;          // Of undrain: the index or the uuid of a gpu.
  bool probe_gpus = false;  // Of doctor.
  bool links = false;       // Of undrain.
  bool preflight = false;
  std::string nproc_per_node, nnodes, max_restarts, resources;  // Of a script on several ranks.
  std::string elastic;                                          // Bounds of their number.
  bool trace = false;         // `rt plan`: the file is a trace of elastic jobs,
  int nodes = 16, slots = 4;  // and this is the cluster that they are replayed on.
  std::string head, token_file, format, step, checkpoint;
  bool algorithms = false;  // `rt bridge`: only lists them.
  bool optimize = false;    // `rt bridge`: ask and tell, without a cluster.
  int cpus = 0, gpus = -1;  // gpus: -1: those that the machine has.
  uint32_t rank = 0;  // Of a trial with several.
  uint32_t ranks = 0;
  uint32_t attempt = 0;   // Of `logs`; 0: the newest.
  bool previous = false;  // The one before it.
  std::string state;  // Of a private cluster that is continued.
  int64_t limit = 0, tail = 0, samples = 0;
  std::string time, deadline;
  std::string keep;  // When a cluster in a cloud that is not used ends itself (--keep).
  std::string if_client_vanishes;  // finish or stop: its work.
  bool failed = false, from_scratch = false;
  bool no_download = false;  // What exists on the cluster only stays there.
  bool purge = false;        // Of `rt down`: the history is deleted.
  int64_t checkpoint_id = 0;
  bool best = false;
  // Of lists: only these states, in which order, and after which id; of status: everything.
  std::string state_filter, sort, after;
  bool all = false;
};

// Exit codes of interface.md.
inline constexpr int kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitNotFound = 3,
                     kExitUnreachable = 4, kExitDenied = 5, kExitTimeout = 124,
                     kExitOwnFailure = 125, kExitInterrupted = 130;

}  // namespace rt
