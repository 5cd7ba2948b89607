// Reads the cluster YAML of a cluster on EC2: the configuration of its head, and what the client
// needs to make the machine of the head. The node types are read by
// common/yaml/node_pools.h; here their node_config is checked against the members of RunInstances.
// Pure but for the environment, which may name the endpoint and the region.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/provider/aws/ladder.h"
#include "common/yaml/cluster_spec.h"

namespace rt {

struct AwsFile {
  Json provider;  // Of the head's configuration (aws_setup.h).
  Ec2Pool head;
  // The node types of which the head makes machines; their resources are empty where the file says
  // none.
  std::vector<NodePool> workers;
  std::string user, key, proxy_command;  // Of ssh to the head's machine; key: empty when not said.
  int head_port = 0;
  bool uses_internal_addresses = false;
  std::vector<std::string> warnings;
};
// InvalidArgument with file, line and column.
absl::StatusOr<AwsFile> ReadAwsFile(const ClusterSpec& spec);

}  // namespace rt
