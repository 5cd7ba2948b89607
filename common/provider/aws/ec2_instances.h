// The instances that carry a cluster's tag, as DescribeInstances lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/provider/aws/ec2_client.h"

namespace rt {

struct Ec2Instance {
  std::string id, state, launched_at, pool;
  std::string cluster_id;  // Of its tag; empty: none.
  uint64_t machine = 0;    // Of its tag; 0: the head's, or none of ours.
  std::string cluster_name, role;        // Of Ray's tags; role: "head" or "worker".
  std::string address, private_address;  // Empty: none (yet).
  // Pending, running, or stopped with a disk that is paid for.
  bool is_there() const { return state != "terminated" && state != "shutting-down"; }
};

// All with the cluster's tag, of the given machines (empty: of all), also those that have ended.
absl::StatusOr<std::vector<Ec2Instance>> InstancesOfCluster(Ec2Client& client,
                                                            const std::string& cluster_id,
                                                            const std::vector<uint64_t>& machines);
// All of clusters with this name, also those that have ended and those that Ray has made.
absl::StatusOr<std::vector<Ec2Instance>> InstancesCalled(Ec2Client& client,
                                                         const std::string& cluster_name);
// The living machines of heads of clusters with this name, the oldest first.
absl::StatusOr<std::vector<Ec2Instance>> HeadsOfClusters(Ec2Client& client,
                                                         const std::string& cluster_name);
// Of these ids, those that EC2 knows.
absl::StatusOr<std::vector<Ec2Instance>> InstancesById(Ec2Client& client,
                                                       const std::vector<std::string>& ids);
// Instances that EC2 does not know count as terminated.
absl::Status TerminateInstances(Ec2Client& client, const std::vector<std::string>& ids);

}  // namespace rt
