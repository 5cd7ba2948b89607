// The cluster YAML of a cluster on EC2 as the head's configuration takes it: Ray's keys, the old
// form (`worker_nodes`) and the new one (`available_node_types`). Pure. Errors carry the path of
// the value as their position's file: YamlDocument::At makes file, line and column of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/provider/aws/ladder.h"

namespace rt {

struct AwsFile {
  Json provider;  // Of the head's configuration (aws_setup.h).
  Ec2Pool head;   // What the client makes itself.
  std::vector<std::string> warnings;
};
// `cluster`: the whole document.
absl::StatusOr<AwsFile> ReadAwsFile(const Json& cluster);

}  // namespace rt
