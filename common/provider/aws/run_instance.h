// The RunInstances call of one machine. Pure.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "common/provider/aws/ec2_client.h"
#include "common/provider/aws/ladder.h"

namespace rt {

struct RunInstance {
  const Ec2Pool* pool = nullptr;
  LadderStep step;
  std::string image;  // Where the node_config names none.
  std::string group;  // Of security, where the node_config names none.
  std::string client_token;
  std::string user_data;                    // Not yet encoded.
  std::map<std::string, std::string> tags;  // Those of the node_config come on top of them.
};
absl::StatusOr<Ec2Parameters> ParametersOf(const RunInstance& run);

// Whether the node_config says in which security groups its machines are.
bool NamesGroups(const Json& node_config);

}  // namespace rt
