// The head's configuration file, JSON that `rt up` writes:
//   {"cluster_name": "demo", "results_root": "/abs/path", "results_roots": ["/srv/results"],
//    "provider": {"type": "local", …}, as the provider reads it (common/provider),
//    "pools": […], "autoscaling": {…} (head/scaling_config.h),
//    "journal": {"url": "postgres://rt@db.lan/rt?passfile=/etc/rt/pgpass"}   or
//    "journal": {"ship": {"to": "s3://bucket/demo", "mode": "async"}, "key_file": "/etc/rt/key"},
//     and in any of them "snapshot_every": 100000, a number of events
//    "checkpoint_store": {"url": "s3://bucket/prefix", "endpoint": "https://minio.lan:9000",
//     "region": "us-east-1", "keep_garbage": "1h", "max_bandwidth": "100MiB", "quota": "500GiB"},
//    "elastic": {"interval_s": 30}, between two sizes, and two profiles, of an elastic attempt,
//    "mounts": ["/abs/path"] (common/programs/served_mounts.h),
//    "unattended": {"lease_s": 60, "keep_s": 86400, "stop_work": false, "end_file": "/abs/path"}
//    (client_lease.h)}
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/limits.h"
#include "common/base/limits_elastic.h"
#include "common/provider/node_provider.h"
#include "common/run/result_roots.h"
#include "common/spec/resources.h"
#include "head/scaling_config.h"
#include "head/service/client_lease.h"

namespace rt {

struct JournalConfig {
  std::string url;      // Of a PostgreSQL database; empty: SQLite in the state directory.
  std::string ship_to;  // An object store (open_objects.h) that gets a copy; empty: none.
  bool sync = false;    // Nothing is acknowledged before the copy is there.
  uint64_t snapshot_every = limits::kSnapshotEveryEvents;
  std::string key_file;  // Opens the CA where other heads find it; empty: it is not there.
};
struct StoreConfig {
  std::string url;  // A directory or s3://bucket/prefix; empty: blobs/ in the state directory.
  std::string endpoint;
  std::string region;
  Bytes bytes_per_second = 0;  // To and from a bucket; 0: no bound.
  Bytes quota = 0;             // Of what is stored there; 0: no bound.
  Millis keep_garbage = 3'600'000;  // How long what nothing names stays: longer than any push.
};

struct HeadConfig {
  std::string cluster_name;
  std::string results_root;  // Absolute; of experiments that name no results_dir.
  // Where else users may have results written. When nothing is said: "/", which is every directory,
  // for a head that starts workers under its own account, and else none.
  std::vector<std::string> results_roots;
  std::unique_ptr<ProviderSetup> provider;  // Null: workers are started by hand.
  ScalingConfig scaling;
  JournalConfig journal;
  StoreConfig store;
  LeaseRules unattended;
  std::vector<std::string> mounts;
  Millis elastic_interval = limits::kElasticInterval;
};
// Without a file: no workers, a name from the state directory. Unknown keys are errors.
absl::StatusOr<HeadConfig> ReadHeadConfig(const std::string& file, const std::string& state_dir);

// Checks `results_roots`, and guards what rt keeps for itself: the state directory, RT_HOME and the
// directories of stores.
absl::StatusOr<ResultRoots> ResultRootsOf(const HeadConfig& config, const std::string& state_dir);

// What the nodes of the configuration have, kAnyGpus where they will look for gpus themselves; a
// pool counts as often as it may grow. Empty when one of them takes the cpus that it finds.
absl::StatusOr<std::vector<Resources>> NodeTypes(const HeadConfig& config);

}  // namespace rt
