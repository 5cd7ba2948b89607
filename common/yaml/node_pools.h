// The kinds of machines that a cluster in a cloud is made of, as its file names them: the old form
// (head_node, worker_nodes) and the new one (available_node_types). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/yaml/yaml_json.h"

namespace rt {

struct NodePool {
  std::string name;  // That of the node type; "head" and "worker" in the old form.
  bool is_head = false;
  // Where the file has it and its node_config: paths for YamlDocument::At, empty for a usual pool.
  std::string path, config_path;
  Json node_config;       // As the API of the provider takes it.
  std::string resources;  // As rt-worker's --resources takes it; empty: what the machine has.
  std::string labels;     // As --labels takes it.
  int min_workers = 0, max_workers = 0;  // Of the head's: of machines beside the head's own.
  double idle_timeout_s = 300;
  std::string instance_type, image;  // From node_config; empty: not said.
  std::vector<std::string> more_types;  // Instance types that are asked for after it.
  bool is_spot = false;
  bool falls_back = false;  // To on-demand machines when there is no spot capacity.
  std::string max_price;    // Of a spot machine, per hour; empty: the on-demand price.
  std::string price_per_hour;  // What one costs, as the file says; empty: it does not.
  // Those of the file, unless the node type has its own.
  std::optional<std::vector<std::string>> initialization_commands, worker_setup_commands;
};

// The label under which a node carries the price of its node type.
inline constexpr char kPriceLabel[] = "price_per_hour";

struct PoolDefaults {
  int min_workers = 0, max_workers = 2;  // Of the cluster.
  double idle_timeout_s = 300;
};
// The head's first. Empty when the file names no kind of machine. InvalidArgument with the position
// in the file.
absl::StatusOr<std::vector<NodePool>> ReadNodePools(const YamlDocument& document,
                                                    const PoolDefaults& defaults);

}  // namespace rt
