// What a cluster YAML says, as plain values: Ray's schema (every key accepted, unknown and
// duplicate keys refused) and our own keys. The providers local and ssh are acted upon by this
// release.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/spec/resources.h"
#include "common/yaml/host_list.h"
#include "common/yaml/node_pools.h"
#include "common/yaml/yaml_json.h"

namespace rt {

struct NodeType {
  std::string name;
  std::optional<Resources> resources;  // Absent: not said.
  bool says_cpu = false;               // Whether `resources` names a number of cpus.
  std::optional<int> min_workers, max_workers;
  std::optional<double> idle_timeout_s;
};

struct ClusterSpec {
  std::string cluster_name;
  std::string provider_type;  // local, ssh, aws, …; local with addresses is ssh.
  int max_workers = 2;
  int min_workers = 0;
  bool says_min_workers = false;  // In the file, also as 0.
  double idle_timeout_s = 300;
  double upscaling_speed = 1;
  Json autoscaling;  // {"hooks": {…}, "hook_timeout_s": 30}, as the head takes it; null: not said.
  std::optional<NodeType> worker_type;  // The first that is not the head's.
  HostList hosts;   // Of the provider ssh, as many as max_workers allows beside the head's.
  SetupSpec setup;  // Done by the provider ssh.
  // The kinds of machines that a cloud would make; the head's first.
  std::vector<NodePool> pools;
  std::string region;  // Of aws.
  Json journal;  // As the head's configuration takes it (docs/journal.md); null: not said.
  Json elastic;  // {"interval_s": 30}; for the head.
  Json checkpoint_store;  // The same (docs/checkpoint-format.md).
  std::vector<std::string> warnings;    // For standard error, one line each.
  YamlDocument document;  // What it was read from: places what a provider finds wrong later.
};

absl::StatusOr<ClusterSpec> LoadCluster(const std::string& filename);
absl::StatusOr<ClusterSpec> LoadCluster(const YamlDocument& document);

struct WorkerShape {
  std::string name;       // worker-1, …
  std::string resources;  // As the flag of rt-worker: "cpu=2,gpu=1".
};
// The pool of a local cluster whose workers come and go by demand.
struct PoolShape {
  std::string name;       // That of the node type.
  std::string resources;  // Of each worker, as in WorkerShape.
  int min_workers = 0;
  int max_workers = 0;
  double idle_timeout_s = 300;
  double upscaling_speed = 1;
};
// Nothing when all workers run all the time: min_workers is not said, or is max_workers.
std::optional<PoolShape> LocalPool(const ClusterSpec& spec, int cpus);
// The workers of a local cluster on a machine with `cpus` cores: floor(cpus / max_workers) cpus
// each, at least 1, unless the node type says otherwise.
std::vector<WorkerShape> LocalWorkers(const ClusterSpec& spec, int cpus);
// One sentence when all workers together offer several times the machine's cpus; "" otherwise.
std::string OvercommitWarning(const ClusterSpec& spec, int cpus);

}  // namespace rt
