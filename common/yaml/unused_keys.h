// Keys of a cluster's file that are accepted for every provider and change nothing for a cluster on
// one machine, such as auth and setup_commands. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/json.h"

namespace rt {

struct UnusedKeysOptions {
  std::string worker_type;        // The node type that describes the workers; empty: none.
  bool workers_by_demand = true;  // Workers come and go, so that idle timeouts have a meaning.
};

// The paths of such keys ("auth", "available_node_types/gpu/labels"), in the order of the file. A
// key that sets nothing (null, false, empty) is left out.
std::vector<std::string> UnusedKeysOfLocal(const Json& cluster, const UnusedKeysOptions& options);
// The warning about them; empty when there are none.
std::string UnusedKeysWarning(const std::vector<std::string>& keys);

}  // namespace rt
