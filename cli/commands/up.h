// Bringing a cluster up, for `rt up` and `rt submit --start`.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "cli/client/head_client.h"
#include "cli/client/home.h"
#include "common/yaml/cluster_spec.h"

namespace rt {

struct UpResult {
  bool started = false;  // It was not up before.
  size_t workers = 0;    // The number of READY workers when `up` returned; more may join.
  size_t workers_max = 0;  // By demand; 0: all of them run all the time.
  bool continues = false;  // From what the last `rt down` archived.
};
// Idempotent: what runs is left alone. Returns when every worker is READY (of workers by demand:
// min_workers), or with DeadlineExceeded. `make_current`: makes the cluster the current one.
absl::StatusOr<UpResult> BringUp(const Home& home, const ClusterSpec& spec, bool make_current);
void SayContinues(const std::string& name);  // On standard error.
int CpuCount();  // Of the cpus that this process may use.

}  // namespace rt
