// Ec2Provider makes the machines of a cluster's pools on Amazon EC2. Each is one RunInstances with
// tags that name the cluster and the machine's number, and a client token made of both and of the
// step of the ladder, so that a call which is repeated makes nothing new. What it remembers only
// saves calls: a provider that starts anew finds its machines by their tags. Thread-safe; blocks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/aws/endpoint.h"
#include "common/base/limits_aws.h"
#include "common/provider/aws/ec2_client.h"
#include "common/provider/aws/ladder.h"
#include "common/provider/aws/network.h"
#include "common/provider/node_provider.h"

namespace rt {

// Where the workers' machines get the programs: see user_data.h.
struct Ec2Programs {
  std::string url, sha256;
};

// Whose machines a provider makes: the head those of the workers, the client that of the head,
// which has number 0.
enum class Ec2Role { kWorkers, kHead };

struct Ec2ProviderOptions {
  Ec2Role role = Ec2Role::kWorkers;
  ProviderContext context;
  std::string cluster_name;
  std::vector<Ec2Pool> pools;
  Ec2NetworkSpec network;
  std::map<std::string, std::string> tags;  // Of the file, for instances and volumes.
  std::string user;                         // That runs the worker.
  Ec2Programs programs;
  AwsEndpoint endpoint;
  Environment environment;  // Of the credentials.
  Millis list_lag = limits::kEc2ListLag;
  Ec2Client::Options client = {};
};
std::unique_ptr<NodeProvider> MakeEc2Provider(Ec2ProviderOptions options);

// The tags by which machines are found: by `down`, and by people in the console.
inline constexpr char kEc2ClusterTag[] = "rt-cluster-id";
inline constexpr char kEc2MachineTag[] = "rt-machine";
inline constexpr char kEc2PoolTag[] = "ray-user-node-type";
inline constexpr char kEc2NameTag[] = "ray-cluster-name";
inline constexpr char kEc2RoleTag[] = "ray-node-type";
inline constexpr char kEc2HeadRole[] = "head";
// "ray-autoscaler-NAME", as Ray calls it.
std::string Ec2GroupName(const std::string& cluster_name);
// The client token of a machine on one step of the ladder: 64 hex digits.
std::string Ec2ClientToken(const std::string& cluster_id, uint64_t machine, const LadderStep& step);

}  // namespace rt
