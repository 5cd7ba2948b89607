// Bringing a cluster up, for `rt up` and `rt submit --start`.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "cli/client/head_client.h"
#include "cli/client/home.h"
#include "cli/invocation.h"
#include "common/base/time.h"
#include "common/yaml/cluster_spec.h"

namespace rt {

struct UpResult {
  bool started = false;  // It was not up before.
  size_t workers = 0;    // The number of READY workers when `up` returned; more may join.
  size_t workers_max = 0;  // By demand; 0: all of them run all the time.
  bool continues = false;  // From what the last `rt down` archived.
};
struct UpOptions {
  bool make_current = true;  // Makes the cluster the current one.
  // A cluster in a cloud ends itself after this time without work. If the client waits for it
  // (`is_attended`), the time begins once the work is over and the client has vanished.
  std::optional<Millis> keep = {};
  bool is_attended = false;
  // The work of a client that has vanished is stopped, and does not continue to its end.
  bool stops_work = false;
};
// The value of `--keep`; nullopt: not given. InvalidArgument for text that is not a duration.
absl::StatusOr<std::optional<Millis>> ReadKeep(const Invocation& invocation);
// Idempotent: what runs is left alone. Returns when every worker is READY (of workers by demand:
// min_workers), or with DeadlineExceeded.
absl::StatusOr<UpResult> BringUp(const Home& home, const ClusterSpec& spec,
                                 const UpOptions& options);
void SayContinues(const std::string& name);  // On standard error.
int CpuCount();  // Of the cpus that this process may use.

}  // namespace rt
