// What the head's configuration says of the provider `aws`:
//   {"type": "aws", "region": "us-west-2", "availability_zone": "us-west-2a,us-west-2b",
//    "cluster_name": "demo", "user": "ubuntu", "tags": {"team": "nlp"}, "open_ports": [6379],
//    "security_group": {"GroupName": "…", "IpPermissions": […]},
//    "programs": {"url": "https://…", "sha256": "…"},
//    "pools": {"gpu": {"node_config": {…}, "spot": {…}, "max_price": 0.2, "resources": "cpu=8"}}}
// Its keys are those of Ray's `provider` and ours; the client writes it (aws_file.h). Credentials
// are never in it: they come from the head's environment or its machine's role.
#pragma once

#include "common/provider/node_provider.h"

namespace rt {

struct Ec2ProviderOptions;

absl::StatusOr<std::unique_ptr<ProviderSetup>> ReadAwsSetup(const Json& provider);
// The same without a head: what the client asks EC2 with.
absl::StatusOr<Ec2ProviderOptions> ReadAwsOptions(const Json& provider);

}  // namespace rt
