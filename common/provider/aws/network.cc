#include "common/provider/aws/network.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/ec2_error.h"
#include "common/provider/aws/ec2_provider.h"
#include "common/provider/aws/run_parameters.h"
#include "common/provider/node_provider.h"
#include "common/spec/gpu_type.h"

namespace rt {
namespace {

constexpr char kGroupDescription[] = "Machines of an rt cluster";
constexpr char kImageOwner[] = "amazon";
constexpr char kImagePrefix[] = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) ";
constexpr char kImagePrefixArm[] =
    "Deep Learning ARM64 Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) ";

absl::Status Wrong(const std::string& message, const std::string& hint) {
  return MakeProviderError(ProviderError::kBadConfiguration, message, hint);
}

std::vector<Ec2Subnet> SubnetsIn(const std::vector<XmlNode>& items) {
  std::vector<Ec2Subnet> subnets;
  for (const XmlNode& item : items)
    subnets.push_back({item.Text("subnetId"), item.Text("availabilityZone"), item.Text("vpcId")});
  return subnets;
}

absl::StatusOr<std::string> DefaultVpc(Ec2Client& client) {
  Ec2Parameters parameters;
  AddEc2Filter(parameters, "isDefault", {"true"});
  RT_ASSIGN_OR_RETURN(auto items, client.Pages("DescribeVpcs", "vpcSet", parameters));
  if (!items.empty() && !items.front().Text("vpcId").empty()) return items.front().Text("vpcId");
  return Wrong("the account has no default network in " + client.region(),
               "write SubnetIds in the node_config, or make one with 'aws ec2 create-default-vpc'");
}

// Of one rule, in EC2's form without the number.
absl::Status Authorize(Ec2Client& client, const std::string& group,
                       const Ec2Parameters& permission) {
  Ec2Parameters parameters = {{"GroupId", group}};
  for (const auto& [name, value] : permission)
    parameters.emplace_back("IpPermissions.1." + name, value);
  const absl::Status status = client.Call(kAuthorizeIngress, parameters).status();
  // Another machine of the cluster, or an earlier run, was first.
  return Ec2CodeOf(status) == "InvalidPermission.Duplicate" ? absl::OkStatus() : status;
}

absl::StatusOr<std::vector<XmlNode>> GroupsCalled(Ec2Client& client, const std::string& name,
                                                  const std::string& vpc) {
  Ec2Parameters parameters;
  AddEc2Filter(parameters, "group-name", {name});
  AddEc2Filter(parameters, "vpc-id", {vpc});
  return client.Pages("DescribeSecurityGroups", "securityGroupInfo", parameters);
}

absl::StatusOr<std::string> FindOrCreateGroup(Ec2Client& client, const std::string& vpc,
                                              const Ec2NetworkSpec& spec) {
  for (int tries = 0; tries < 2; ++tries) {
    RT_ASSIGN_OR_RETURN(auto found, GroupsCalled(client, spec.group_name, vpc));
    if (!found.empty()) return found.front().Text("groupId");
    Ec2Parameters parameters = {
        {"GroupName", spec.group_name}, {"GroupDescription", kGroupDescription}, {"VpcId", vpc}};
    if (!spec.tags.empty())
      parameters.emplace_back("TagSpecification.1.ResourceType", "security-group");
    int number = 0;
    for (const auto& [key, value] : spec.tags) {
      const std::string tag = "TagSpecification.1.Tag." + std::to_string(++number) + ".";
      parameters.emplace_back(tag + "Key", key);
      parameters.emplace_back(tag + "Value", value);
    }
    const auto made = client.Call("CreateSecurityGroup", parameters);
    if (made.ok()) return made->Text("groupId");
    if (Ec2CodeOf(made.status()) != "InvalidGroup.Duplicate") return made.status();
  }
  return absl::UnavailableError("EC2 does not list the security group yet that it has");
}

bool HasRule(const XmlNode& group, const std::string& protocol, const std::string& port,
             const std::string& from_group) {
  for (const XmlNode& rule : group.Items("ipPermissions")) {
    if (rule.Text("ipProtocol") != protocol || rule.Text("fromPort") != port) continue;
    if (from_group.empty() && !rule.Items("ipRanges").empty()) return true;
    for (const XmlNode& pair : rule.Items("groups"))
      if (!from_group.empty() && pair.Text("groupId") == from_group) return true;
  }
  return false;
}

int64_t UnitsOf(const std::string& text) {
  return text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != text.npos
             ? 0
             : std::stoll(text) * kUnit;
}

Ec2InstanceType TypeOf(const XmlNode& item) {
  Ec2InstanceType type;
  type.resources.cpu = UnitsOf(item.Text("vCpuInfo/defaultVCpus"));
  type.resources.memory = UnitsOf(item.Text("memoryInfo/sizeInMiB")) / kUnit << 20;
  for (const XmlNode& gpu : item.Items("gpuInfo/gpus")) {
    type.resources.gpu += UnitsOf(gpu.Text("count"));
    AddGpuType(type.resources, GpuTypeOf(gpu.Text("name")));
  }
  type.architecture = "x86_64";
  for (const XmlNode& one : item.Items("processorInfo/supportedArchitectures"))
    if (one.text == "arm64") type.architecture = one.text;
  return type;
}

}  // namespace

absl::StatusOr<std::vector<Ec2Subnet>> FindSubnets(Ec2Client& client, const Ec2Pool& pool,
                                                   const std::vector<std::string>& zones) {
  Ec2Parameters parameters;
  if (!pool.subnets.empty()) {
    AddEc2Filter(parameters, "subnet-id", pool.subnets);
  } else {
    RT_ASSIGN_OR_RETURN(std::string vpc, DefaultVpc(client));
    AddEc2Filter(parameters, "vpc-id", {vpc});
    AddEc2Filter(parameters, "state", {"available"});
    AddEc2Filter(parameters, "default-for-az", {"true"});
    if (!zones.empty()) AddEc2Filter(parameters, "availability-zone", zones);
  }
  RT_ASSIGN_OR_RETURN(auto items, client.Pages("DescribeSubnets", "subnetSet", parameters));
  std::vector<Ec2Subnet> subnets = SubnetsIn(items);
  const std::vector<std::string>& order = pool.subnets.empty() ? zones : pool.subnets;
  auto rank = [&](const Ec2Subnet& subnet) {
    return std::find(order.begin(), order.end(), pool.subnets.empty() ? subnet.zone : subnet.id) -
           order.begin();
  };
  std::sort(subnets.begin(), subnets.end(), [&](const Ec2Subnet& a, const Ec2Subnet& b) {
    return std::pair(rank(a), std::pair(a.zone, a.id)) <
           std::pair(rank(b), std::pair(b.zone, b.id));
  });
  if (subnets.empty())
    return Wrong(
        pool.subnets.empty()
            ? "the default network of " + client.region() + " has no subnet" +
                  (zones.empty() ? "" : " in " + Join(zones, ", "))
            : "none of the subnets " + Join(pool.subnets, ", ") + " is in " + client.region(),
        "correct availability_zone, or write SubnetIds in the node_config");
  for (const Ec2Subnet& subnet : subnets)
    if (subnet.vpc != subnets.front().vpc)
      return Wrong("the subnets of pool " + pool.name + " are in different networks",
                   "name subnets of one network in SubnetIds");
  return subnets;
}

absl::StatusOr<std::string> EnsureSecurityGroup(Ec2Client& client, const std::string& vpc,
                                                const Ec2NetworkSpec& spec) {
  RT_ASSIGN_OR_RETURN(const std::string id, FindOrCreateGroup(client, vpc, spec));
  RT_ASSIGN_OR_RETURN(auto found, GroupsCalled(client, spec.group_name, vpc));
  const XmlNode none;
  const XmlNode& group = found.empty() ? none : found.front();
  if (!HasRule(group, "-1", "", id))
    RT_RETURN_IF_ERROR(Authorize(client, id, {{"IpProtocol", "-1"}, {"Groups.1.GroupId", id}}));
  for (const uint16_t port : spec.open_ports) {
    const std::string text = std::to_string(port);
    if (HasRule(group, "tcp", text, "")) continue;
    RT_RETURN_IF_ERROR(Authorize(client, id,
                                 {{"IpProtocol", "tcp"},
                                  {"FromPort", text},
                                  {"ToPort", text},
                                  {"IpRanges.1.CidrIp", kEverywhere},
                                  {"IpRanges.1.Description", "the head of the rt cluster"}}));
  }
  if (!spec.ingress.is_array()) return id;
  for (const Json& permission : spec.ingress.array()) {
    RT_ASSIGN_OR_RETURN(Ec2Parameters rule,
                        FlattenForEc2(permission, "provider/security_group/IpPermissions"));
    RT_RETURN_IF_ERROR(Authorize(client, id, rule));
  }
  return id;
}

static absl::StatusOr<std::vector<XmlNode>> GroupsOf(Ec2Client& client,
                                                     const std::string& cluster_id) {
  Ec2Parameters parameters;
  AddEc2Filter(parameters, std::string("tag:") + kEc2ClusterTag, {cluster_id});
  return client.Pages("DescribeSecurityGroups", "securityGroupInfo", parameters);
}

absl::Status GiveSecurityGroups(Ec2Client& client, const std::string& from_cluster,
                                const std::string& to_cluster) {
  RT_ASSIGN_OR_RETURN(const auto groups, GroupsOf(client, from_cluster));
  for (const XmlNode& group : groups)
    RT_RETURN_IF_ERROR(client
                           .Call("CreateTags", {{"ResourceId.1", group.Text("groupId")},
                                                {"Tag.1.Key", kEc2ClusterTag},
                                                {"Tag.1.Value", to_cluster}})
                           .status());
  return absl::OkStatus();
}

absl::Status RemoveSecurityGroups(Ec2Client& client, const std::string& cluster_id) {
  RT_ASSIGN_OR_RETURN(const auto groups, GroupsOf(client, cluster_id));
  for (const XmlNode& group : groups) {
    const absl::Status status =
        client.Call("DeleteSecurityGroup", {{"GroupId", group.Text("groupId")}}).status();
    if (!status.ok() && Ec2CodeOf(status) != "InvalidGroup.NotFound") return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, Ec2InstanceType>> DescribeInstanceTypes(
    Ec2Client& client, const std::vector<std::string>& types) {
  Ec2Parameters parameters;
  for (size_t i = 0; i < types.size(); ++i)
    parameters.emplace_back("InstanceType." + std::to_string(i + 1), types[i]);
  RT_ASSIGN_OR_RETURN(auto items,
                      client.Pages("DescribeInstanceTypes", "instanceTypeSet", parameters));
  std::map<std::string, Ec2InstanceType> found;
  for (const XmlNode& item : items) found[item.Text("instanceType")] = TypeOf(item);
  for (const std::string& type : types)
    if (!found.contains(type))
      return Wrong(client.region() + " has no instance type '" + Excerpt(type) + "'",
                   "see 'aws ec2 describe-instance-types'");
  return found;
}

absl::StatusOr<std::string> FindDefaultImage(Ec2Client& client, const std::string& architecture) {
  const std::string prefix = architecture == "arm64" ? kImagePrefixArm : kImagePrefix;
  Ec2Parameters parameters = {{"Owner.1", kImageOwner}};
  AddEc2Filter(parameters, "name", {prefix + "*"});
  AddEc2Filter(parameters, "state", {"available"});
  AddEc2Filter(parameters, "architecture", {architecture});
  RT_ASSIGN_OR_RETURN(auto items, client.Pages("DescribeImages", "imagesSet", parameters));
  // Creation dates are ISO 8601 in UTC: the later one is the greater text.
  const auto newest =
      std::max_element(items.begin(), items.end(), [](const XmlNode& a, const XmlNode& b) {
        return std::pair(a.Text("creationDate"), a.Text("imageId")) <
               std::pair(b.Text("creationDate"), b.Text("imageId"));
      });
  if (newest == items.end())
    return Wrong("AWS publishes no image '" + prefix + "*' in " + client.region(),
                 "write the ImageId in the node_config");
  return newest->Text("imageId");
}

}  // namespace rt
