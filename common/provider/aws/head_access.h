// What the machine of a cluster's head is opened with and what it may do itself, each made for one
// cluster and removed with it: the key pair of the client's ssh, when the file names no key, and
// the role under which the head makes the workers' machines, when its node type names no
// IamInstanceProfile. Names are made of the cluster's id. Blocks.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "common/provider/aws/ec2_client.h"

namespace rt {

// "rt-ID", "rt-head-ID".
std::string HeadKeyName(const std::string& cluster_id);
std::string HeadRoleName(const std::string& cluster_id);

// `public_key`: a line as in authorized_keys. OK when a key pair of that name is there.
// `tags`: those of the cluster.
absl::Status ImportHeadKey(Ec2Client& ec2, const std::string& cluster_id,
                           const std::string& public_key,
                           const std::map<std::string, std::string>& tags);
absl::Status RemoveHeadKey(Ec2Client& ec2, const std::string& cluster_id);

// The API of IAM, for Ec2Client.
QueryApi IamApi();
// A role and an instance profile of one name. It may make machines and groups, and end those with
// the cluster's tag. `passes_roles`: the workers' machines have profiles of their own. Each step is
// OK when it was done before.
absl::Status MakeHeadRole(Ec2Client& iam, const std::string& cluster_id, bool passes_roles);
absl::Status RemoveHeadRole(Ec2Client& iam, const std::string& cluster_id);

}  // namespace rt
