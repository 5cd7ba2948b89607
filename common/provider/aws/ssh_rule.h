// The rule that lets ssh (TCP port 22) into the security groups of a cluster from everywhere while
// a client sets up the machine of the head. Its description says how long it holds. A client renews
// it and removes it when it has finished; the head removes what a client that was killed has left.
// Other rules stay, also those by which the cluster's file opens the port.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/base/time.h"
#include "common/provider/aws/ec2_client.h"
#include "common/provider/aws/network.h"

namespace rt {

// `until`: on the wall clock. A rule that is there holds until then from now on.
absl::Status OpenSshPort(Ec2Client& client, const Ec2NetworkSpec& spec, Millis until);
absl::Status CloseSshPort(Ec2Client& client, const Ec2NetworkSpec& spec);
// Removes the rules whose time is over at `now`.
absl::Status CloseExpiredSsh(Ec2Client& client, const std::string& cluster_id, Millis now);

}  // namespace rt
