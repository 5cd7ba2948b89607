// A cluster on EC2 as its client sees it: the machine of its head, which the client makes, and
// everything that carries the cluster's tag, which is removed with it. It keeps nothing: what there
// is, is found by its tag. One thread at a time; blocks, each call within the bounds of
// limits_aws.h. Errors of EC2 carry a class (node_provider.h).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/provider/aws/ec2_instances.h"
#include "common/provider/aws/ladder.h"
#include "common/provider/aws/network.h"

namespace rt {

class Ec2Cluster {
 public:
  virtual ~Ec2Cluster() = default;
  // `provider`: as in the head's configuration (aws_setup.h). Credentials are those of this
  // process's environment.
  static absl::StatusOr<std::unique_ptr<Ec2Cluster>> Open(const Json& provider);

  // The living machines of heads of clusters of this name, the oldest first.
  virtual absl::StatusOr<std::vector<Ec2Instance>> Heads() = 0;
  // The ids of the clusters of this name of which anything is there: a machine that has not ended,
  // a security group or a key pair.
  virtual absl::StatusOr<std::set<std::string>> ClusterIds() = 0;
  // NotFound: EC2 does not know it.
  virtual absl::StatusOr<Ec2Instance> Find(const std::string& id) = 0;

  // See head_access.h.
  virtual absl::Status ImportKey(const std::string& cluster_id, const std::string& public_key) = 0;
  virtual absl::Status MakeRole(const std::string& cluster_id, bool passes_roles) = 0;
  // The id of the head's machine. May be repeated: makes no second one for this cluster id.
  virtual absl::StatusOr<std::string> CreateHead(const std::string& cluster_id,
                                                 const Ec2Pool& pool) = 0;
  virtual absl::StatusOr<std::map<std::string, Ec2InstanceType>> Types(
      const std::vector<std::string>& names) = 0;

  // Whether the machine of the head can be reached with ssh. Without it nothing but the head's port
  // is open to everybody. It stays open until CloseSsh, or for limits::kEc2SshOpen after this
  // process has ended.
  virtual absl::Status OpenSsh() = 0;
  // From now on only from this address, as the machine of the head sees its client. One of IPv6
  // changes nothing: OpenSsh does not open the port for them.
  virtual absl::Status NarrowSsh(const std::string& client_address) = 0;
  virtual absl::Status CloseSsh() = 0;

  // The security groups of the one cluster belong to the other one of this name from now on.
  virtual absl::Status GiveGroups(const std::string& from_cluster,
                                  const std::string& to_cluster) = 0;

  struct Removal {
    std::string cluster_id;
    Millis listed_from = 0;  // On the wall clock: from then on lists show all that was made.
    bool has_role = true;    // Made by MakeRole.
  };
  // Ends all machines of the cluster and waits until the lists show none, then removes its role,
  // its groups and its key pair, by whose tags any client finds the rest. What could not be
  // removed, and why: a line each.
  virtual std::vector<std::string> Remove(const Removal& removal) = 0;
};

}  // namespace rt
