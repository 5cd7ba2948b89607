#include "common/provider/aws/ec2_cluster.h"

#include <arpa/inet.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "common/aws/credential_chain.h"
#include "common/base/limits_aws.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/aws_setup.h"
#include "common/provider/aws/ec2_error.h"
#include "common/provider/aws/ec2_provider.h"
#include "common/provider/aws/head_access.h"
#include "common/provider/aws/ssh_rule.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"

namespace rt {
namespace {

constexpr Millis kLookEvery = 500;
constexpr char kTerminated[] = "terminated";

AwsEndpoint IamEndpoint(const Ec2ProviderOptions& options) {
  AwsEndpoint endpoint = options.endpoint;
  // A place of its own for EC2 is none of IAM's.
  const auto all = options.environment.find("AWS_ENDPOINT_URL");
  const auto own = options.environment.find("AWS_ENDPOINT_URL_IAM");
  if (own != options.environment.end() && !own->second.empty()) endpoint.url = own->second;
  else if (all != options.environment.end() && !all->second.empty()) endpoint.url = all->second;
  return endpoint;
}

class Ec2ClusterOfName final : public Ec2Cluster {
 public:
  explicit Ec2ClusterOfName(Ec2ProviderOptions options)
      : options_(std::move(options)), chain_(http_, options_.environment),
        ec2_(http_, chain_, options_.endpoint),
        iam_(http_, chain_, IamEndpoint(options_), {.api = IamApi()}) {}

  absl::StatusOr<std::vector<Ec2Instance>> Heads() override {
    return HeadsOfClusters(ec2_, options_.cluster_name);
  }
  absl::StatusOr<Ec2Instance> Find(const std::string& id) override {
    RT_ASSIGN_OR_RETURN(std::vector<Ec2Instance> found, InstancesById(ec2_, {id}));
    if (found.empty()) return NotFound("EC2 does not list the instance " + id);
    return found.front();
  }
  absl::Status ImportKey(const std::string& cluster_id, const std::string& public_key) override {
    return ImportHeadKey(ec2_, cluster_id, public_key, TagsOf(cluster_id));
  }
  absl::Status MakeRole(const std::string& cluster_id, bool passes_roles) override {
    return MakeHeadRole(iam_, cluster_id, passes_roles);
  }
  absl::StatusOr<std::map<std::string, Ec2InstanceType>> Types(
      const std::vector<std::string>& names) override {
    return DescribeInstanceTypes(ec2_, names);
  }
  absl::StatusOr<std::set<std::string>> ClusterIds() override;
  absl::Status OpenSsh() override { return KeepSshOpen(kEverywhere); }
  absl::Status NarrowSsh(const std::string& client_address) override;
  absl::Status CloseSsh() override {
    ssh_renewer_ = {};
    return CloseSshPort(ec2_, options_.network);
  }
  absl::Status GiveGroups(const std::string& from_cluster, const std::string& to_cluster) override {
    return GiveSecurityGroups(ec2_, from_cluster, to_cluster);
  }
  absl::StatusOr<std::string> CreateHead(const std::string& cluster_id,
                                         const Ec2Pool& pool) override;
  std::vector<std::string> Remove(const Removal& removal) override;

 private:
  // And renews the rule.
  absl::Status KeepSshOpen(const std::string& from);
  absl::Status EndMachines(const Removal& removal, Millis until);
  std::map<std::string, std::string> TagsOf(const std::string& cluster_id) const {
    return {{kEc2NameTag, options_.cluster_name}, {kEc2ClusterTag, cluster_id}};
  }

  const Ec2ProviderOptions options_;
  HttpClient http_;
  CredentialChain chain_;
  Ec2Client ec2_, iam_;
  std::jthread ssh_renewer_;  // The last member.
};

absl::Status Ec2ClusterOfName::NarrowSsh(const std::string& client_address) {
  in_addr parsed{};
  if (::inet_pton(AF_INET, client_address.c_str(), &parsed) != 1) return absl::OkStatus();
  RT_RETURN_IF_ERROR(KeepSshOpen(client_address + "/32"));
  return CloseSshPort(ec2_, options_.network, kEverywhere);
}

absl::Status Ec2ClusterOfName::KeepSshOpen(const std::string& from) {
  ssh_renewer_ = {};
  const auto open = [this, from] {
    return OpenSshPort(ec2_, options_.network, from, WallClock() + limits::kEc2SshOpen);
  };
  RT_RETURN_IF_ERROR(open());
  ssh_renewer_ = std::jthread([open](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    const std::chrono::milliseconds every(limits::kEc2SshOpen / 4);
    while (!stopped.wait_for(lock, stop, every, [&] { return stop.stop_requested(); }))
      open().IgnoreError();  // The next one comes before its time is over.
  });
  return absl::OkStatus();
}

// IAM needs seconds until EC2 knows a new profile.
bool LacksProfile(const absl::Status& status) {
  const std::string message = MessageOf(status);
  return message.find("nstance Profile") != std::string::npos ||
         message.find("nstanceProfile") != std::string::npos;
}

absl::StatusOr<std::set<std::string>> Ec2ClusterOfName::ClusterIds() {
  std::set<std::string> ids;
  RT_ASSIGN_OR_RETURN(const auto machines, InstancesCalled(ec2_, options_.cluster_name));
  for (const Ec2Instance& one : machines)
    if (one.is_there()) ids.insert(one.cluster_id);
  Ec2Parameters parameters;
  AddEc2Filter(parameters, std::string("tag:") + kEc2NameTag, {options_.cluster_name});
  for (const auto& [action, list] : {std::pair("DescribeSecurityGroups", "securityGroupInfo"),
                                     std::pair("DescribeKeyPairs", "keySet")}) {
    RT_ASSIGN_OR_RETURN(const auto items, ec2_.Pages(action, list, parameters));
    for (const XmlNode& item : items)
      for (const XmlNode& tag : item.Items("tagSet"))
        if (tag.Text("key") == kEc2ClusterTag) ids.insert(tag.Text("value"));
  }
  ids.erase("");  // What Ray has made.
  return ids;
}

absl::StatusOr<std::string> Ec2ClusterOfName::CreateHead(const std::string& cluster_id,
                                                         const Ec2Pool& pool) {
  Ec2ProviderOptions options = options_;
  options.role = Ec2Role::kHead;
  options.pools = {pool};
  options.context.cluster_id = cluster_id;
  options.network.tags = TagsOf(cluster_id);
  const std::unique_ptr<NodeProvider> provider = MakeEc2Provider(std::move(options));
  const CreateCall call{.pool = pool.name, .each = {}, .machines = {{0, kEc2HeadRole}}};
  const Millis until = SteadyClock() + limits::kEc2ProfileMax;
  while (true) {
    const absl::StatusOr<std::vector<MadeMachine>> made = provider->Create(call);
    if (made.ok()) return made->front().id;
    if (!LacksProfile(made.status()) || SteadyClock() >= until) return made.status();
    SleepFor(kLookEvery);
  }
}

absl::Status Ec2ClusterOfName::EndMachines(const Removal& removal, Millis until) {
  while (true) {
    RT_ASSIGN_OR_RETURN(auto instances, InstancesOfCluster(ec2_, removal.cluster_id, {}));
    std::vector<std::string> there, going;
    for (const Ec2Instance& one : instances) {
      if (one.is_there()) there.push_back(one.id);
      if (one.state != kTerminated) going.push_back(one.id);
    }
    if (!there.empty()) RT_RETURN_IF_ERROR(TerminateInstances(ec2_, there));
    if (going.empty() && WallClock() >= removal.listed_from) return absl::OkStatus();
    if (SteadyClock() >= until)
      return absl::DeadlineExceededError(ToAbsl(going.empty()
                                                    ? "EC2's lists may not show all machines yet"
                                                    : "instances " + Join(going, ", ") + " in " +
                                                          ec2_.region() + " have not ended"));
    SleepFor(kLookEvery);
  }
}

std::vector<std::string> Ec2ClusterOfName::Remove(const Removal& removal) {
  std::vector<std::string> left;
  const Millis until = SteadyClock() + limits::kEc2EndMax;
  absl::Status ended = EndMachines(removal, until);
  if (!ended.ok()) left.push_back("machines: " + MessageOf(ended));
  auto note = [&left](const char* what, const absl::Status& status) {
    if (!status.ok()) left.push_back(std::string(what) + ": " + MessageOf(status));
  };
  ReachFailpoint("client.down.before_role");
  if (removal.has_role) note("role of the head", RemoveHeadRole(iam_, removal.cluster_id));
  ReachFailpoint("client.down.before_group");
  // The network interfaces of a machine outlive it by moments.
  absl::Status groups = RemoveSecurityGroups(ec2_, removal.cluster_id);
  while (ended.ok() && Ec2CodeOf(groups) == "DependencyViolation" && SteadyClock() < until) {
    SleepFor(kLookEvery);
    groups = RemoveSecurityGroups(ec2_, removal.cluster_id);
  }
  note("security group", groups);
  ReachFailpoint("client.down.before_key");
  note("key pair", RemoveHeadKey(ec2_, removal.cluster_id));
  return left;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ec2Cluster>> Ec2Cluster::Open(const Json& provider) {
  RT_ASSIGN_OR_RETURN(Ec2ProviderOptions options, ReadAwsOptions(provider));
  return std::make_unique<Ec2ClusterOfName>(std::move(options));
}

}  // namespace rt
