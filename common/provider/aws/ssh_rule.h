// The rules that let ssh (TCP port 22) into the security groups of a cluster while a client sets up
// the machine of the head: from everywhere until that machine has said under which address the
// client arrives there, then from that address only. A rule's description says how long it holds. A
// client renews its rule and removes it when it has finished; the head removes what a client that
// was killed has left. Other rules stay, also those by which the cluster's file opens the port.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/base/time.h"
#include "common/provider/aws/ec2_client.h"
#include "common/provider/aws/network.h"

namespace rt {

// For addresses in `from`, such as kEverywhere. `until`: on the wall clock. A rule that is there
// holds until then from now on.
absl::Status OpenSshPort(Ec2Client& client, const Ec2NetworkSpec& spec, const std::string& from,
                         Millis until);
// Removes our rule for these addresses, whoever made it; without `from`, all of ours.
absl::Status CloseSshPort(Ec2Client& client, const Ec2NetworkSpec& spec,
                          const std::string& from = "");
// Removes the rules whose time is over at `now`.
absl::Status CloseExpiredSsh(Ec2Client& client, const std::string& cluster_id, Millis now);

}  // namespace rt
