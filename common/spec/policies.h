// What an experiment does about failures: rules for failed attempts, a breaker for a search that
// fails from its start on, a watchdog for trials that say nothing any more. docs/policies.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/base/time.h"
#include "common/spec/resource_request.h"

namespace rt {

enum class RetryAction {
  kRetry,        // Again, and it is no failure of the trial's.
  kFail,         // The trial has failed, however many failures it may have.
  kExcludeNode,  // Again, elsewhere: the node is to blame.
};
const char* RetryActionName(RetryAction action);

// For an attempt that failed: the first rule that matches says what follows.
struct RetryRule {
  std::vector<int> exit_codes;  // Any of them; 128 + n for signal n. Empty: all.
  bool out_of_gpu_memory = false;  // The program ran out of the memory of a gpu.
  std::string log;  // Found in a line of its log's end (patterns.h); empty: not looked at.
  RetryAction then = RetryAction::kRetry;
  bool off = false;  // It matches nothing: its journalled form could not be read.

  // `exit_code` with signals as above; `logged`: the pattern was found; `oom`: it ran out of the
  // memory of a gpu.
  bool Matches(int exit_code, bool logged, bool oom = false) const;
};

// Ends a search whose first trials all failed alike, and at once.
struct BreakerSpec {
  int trials = 5;           // So many, of more; 0: never.
  Millis within = 60'000;   // Each attempt ended this soon after its start.
};

// Where a checkpoint of one rank must lie before it counts as committed; from there it is copied to
// the store by itself. Those of several ranks always wait for the store.
enum class DurableAfter {
  kStore = 0,
  kPeer = 1,   // On another node as well as on the one that trains.
  kLocal = 2,  // On the disk of the node that trains.
};
const char* DurableAfterName(DurableAfter where);  // As in the spec.

// Ends an attempt that has not reported for long, so that it resumes from its newest checkpoint.
struct WatchdogSpec {
  double factor = 0;      // Times the attempt's own median interval; 0: nobody watches.
  Millis min = 60'000;    // But at least so long.
  int restarts = 3;       // So often in a trial; then it has failed.
  bool dump = false;      // SIGQUIT first, also to programs that did not say that they handle it.
};

// rt-probe tests the gpus of the trial's ranks before they start.
struct PreflightSpec {
  bool wanted = false;
  double min_bus_gbps = 0;  // Of the all-reduce over the gpus on each node; 0: any.
};

// Of the experiment's JSON. The errors name the path of the culprit, see experiment_spec.h.
absl::Status ReadRetry(const Json& json, std::vector<RetryRule>& rules);
absl::Status ReadBreaker(const Json& json, BreakerSpec& breaker);
absl::Status ReadWatchdog(const Json& json, WatchdogSpec& watchdog);
absl::Status ReadPreflight(const Json& json, const ResourceRequest& resources,
                           PreflightSpec& preflight);

}  // namespace rt
