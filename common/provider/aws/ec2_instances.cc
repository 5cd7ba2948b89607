#include "common/provider/aws/ec2_instances.h"

#include <algorithm>
#include <charconv>

#include "common/base/status.h"
#include "common/provider/aws/ec2_error.h"
#include "common/provider/aws/ec2_provider.h"

namespace rt {
namespace {

constexpr char kUnknownInstance[] = "InvalidInstanceID.NotFound";

uint64_t NumberOf(const std::string& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

Ec2Instance InstanceOf(const XmlNode& item) {
  Ec2Instance instance{.id = item.Text("instanceId"),
                       .state = item.Text("instanceState/name"),
                       .launched_at = item.Text("launchTime"),
                       .address = item.Text("ipAddress"),
                       .private_address = item.Text("privateIpAddress")};
  for (const XmlNode& tag : item.Items("tagSet")) {
    const std::string key = tag.Text("key"), value = tag.Text("value");
    if (key == kEc2ClusterTag) instance.cluster_id = value;
    if (key == kEc2MachineTag) instance.machine = NumberOf(value);
    if (key == kEc2PoolTag) instance.pool = value;
    if (key == kEc2NameTag) instance.cluster_name = value;
    if (key == kEc2RoleTag) instance.role = value;
  }
  return instance;
}

absl::StatusOr<std::vector<Ec2Instance>> Describe(Ec2Client& client,
                                                  const Ec2Parameters& parameters) {
  RT_ASSIGN_OR_RETURN(auto reservations,
                      client.Pages("DescribeInstances", "reservationSet", parameters));
  std::vector<Ec2Instance> instances;
  for (const XmlNode& reservation : reservations)
    for (const XmlNode& item : reservation.Items("instancesSet"))
      if (!item.Text("instanceId").empty()) instances.push_back(InstanceOf(item));
  return instances;
}

Ec2Parameters Ids(const std::vector<std::string>& ids) {
  Ec2Parameters parameters;
  for (size_t i = 0; i < ids.size(); ++i)
    parameters.emplace_back("InstanceId." + std::to_string(i + 1), ids[i]);
  return parameters;
}

}  // namespace

absl::StatusOr<std::vector<Ec2Instance>> InstancesOfCluster(Ec2Client& client,
                                                            const std::string& cluster_id,
                                                            const std::vector<uint64_t>& machines) {
  Ec2Parameters parameters;
  AddEc2Filter(parameters, std::string("tag:") + kEc2ClusterTag, {cluster_id});
  std::vector<std::string> numbers;
  for (uint64_t machine : machines) numbers.push_back(std::to_string(machine));
  if (!numbers.empty()) AddEc2Filter(parameters, std::string("tag:") + kEc2MachineTag, numbers);
  return Describe(client, parameters);
}

absl::StatusOr<std::vector<Ec2Instance>> InstancesCalled(Ec2Client& client,
                                                         const std::string& cluster_name) {
  Ec2Parameters parameters;
  AddEc2Filter(parameters, std::string("tag:") + kEc2NameTag, {cluster_name});
  return Describe(client, parameters);
}

absl::StatusOr<std::vector<Ec2Instance>> HeadsOfClusters(Ec2Client& client,
                                                         const std::string& cluster_name) {
  RT_ASSIGN_OR_RETURN(std::vector<Ec2Instance> heads, InstancesCalled(client, cluster_name));
  std::erase_if(heads, [](const Ec2Instance& one) {
    return !one.is_there() || one.role != kEc2HeadRole || one.cluster_id.empty();
  });
  std::sort(heads.begin(), heads.end(), [](const Ec2Instance& a, const Ec2Instance& b) {
    return std::pair(a.launched_at, a.id) < std::pair(b.launched_at, b.id);
  });
  return heads;
}

absl::StatusOr<std::vector<Ec2Instance>> InstancesById(Ec2Client& client,
                                                       const std::vector<std::string>& ids) {
  std::vector<Ec2Instance> all;
  for (size_t at = 0; at < ids.size(); at += limits::kEc2TerminatesAtOnce) {
    Ec2Parameters parameters;
    AddEc2Filter(parameters, "instance-id",
                 {ids.begin() + static_cast<ptrdiff_t>(at),
                  ids.begin() + static_cast<ptrdiff_t>(
                                    std::min(ids.size(), at + limits::kEc2TerminatesAtOnce))});
    RT_ASSIGN_OR_RETURN(auto some, Describe(client, parameters));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

absl::Status TerminateInstances(Ec2Client& client, const std::vector<std::string>& ids) {
  for (size_t at = 0; at < ids.size(); at += limits::kEc2TerminatesAtOnce) {
    const std::vector<std::string> some(
        ids.begin() + static_cast<ptrdiff_t>(at),
        ids.begin() +
            static_cast<ptrdiff_t>(std::min(ids.size(), at + limits::kEc2TerminatesAtOnce)));
    absl::Status status = client.Call("TerminateInstances", Ids(some)).status();
    // One that is unknown makes EC2 refuse all of them.
    if (Ec2CodeOf(status) == kUnknownInstance) {
      status = absl::OkStatus();
      for (const std::string& id : some) {
        const absl::Status one = client.Call("TerminateInstances", Ids({id})).status();
        if (!one.ok() && Ec2CodeOf(one) != kUnknownInstance) status = one;
      }
    }
    RT_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace rt
