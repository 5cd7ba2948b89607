// Where the machines of a cluster are put: subnets, the security group, the image. Found once, at
// the first machine that needs it, and looked for again after EC2 has denied one of them. Not
// thread-safe; blocks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/provider/aws/ec2_client.h"
#include "common/provider/aws/ladder.h"
#include "common/spec/resources.h"

namespace rt {

struct Ec2NetworkSpec {
  std::vector<std::string> zones;    // Of the file, in its order; empty: all of the region.
  std::string group_name;            // Of the security group that is made when it is missing.
  Json ingress;                      // `IpPermissions` of the file, in EC2's form; null: none.
  std::vector<uint16_t> open_ports;  // That everybody may reach: the head's one port.
  std::map<std::string, std::string> tags;
};

inline constexpr char kAuthorizeIngress[] = "AuthorizeSecurityGroupIngress";
inline constexpr char kEverywhere[] = "0.0.0.0/0";

// The subnets of the pool in the order of the zones; those of the account's default network when
// the file names none. Not empty.
absl::StatusOr<std::vector<Ec2Subnet>> FindSubnets(Ec2Client& client, const Ec2Pool& pool,
                                                   const std::vector<std::string>& zones);
// The id of the cluster's security group in this network. It lets in what the machines of the
// cluster send each other, the open ports, and what the file adds; a rule that is there stays.
absl::StatusOr<std::string> EnsureSecurityGroup(Ec2Client& client, const std::string& vpc,
                                                const Ec2NetworkSpec& spec);
// Removes the groups that were made for this cluster, in every network of the region; OK when there
// is none. An error while a machine is still in one.
absl::Status RemoveSecurityGroups(Ec2Client& client, const std::string& cluster_id);

// From now on the groups that were made for the one cluster belong to the other one of its name.
absl::Status GiveSecurityGroups(Ec2Client& client, const std::string& from_cluster,
                                const std::string& to_cluster);

// What an instance type has, and its processor ("x86_64", "arm64").
struct Ec2InstanceType {
  Resources resources;
  std::string architecture;
};
absl::StatusOr<std::map<std::string, Ec2InstanceType>> DescribeInstanceTypes(
    Ec2Client& client, const std::vector<std::string>& types);
// The newest image of Ubuntu with NVIDIA's drivers that AWS publishes, for an image that the file
// leaves out.
absl::StatusOr<std::string> FindDefaultImage(Ec2Client& client, const std::string& architecture);

}  // namespace rt
