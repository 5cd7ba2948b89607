#include "common/provider/aws/run_parameters.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr int kDepthMax = 12;
constexpr size_t kItemsMax = 200;

// The members of one structure of RunInstances; the path has no numbers of items.
struct Members {
  std::string_view path;
  std::string_view names;  // Separated by blanks.
};
constexpr Members kMembers[] = {
    {"",
     "BlockDeviceMappings CapacityReservationSpecification CpuOptions CreditSpecification "
     "DisableApiStop DisableApiTermination EbsOptimized ElasticGpuSpecification "
     "ElasticInferenceAccelerators EnablePrimaryIpv6 EnclaveOptions HibernationOptions "
     "IamInstanceProfile ImageId InstanceMarketOptions InstanceType Ipv6AddressCount "
     "Ipv6Addresses KernelId KeyName LaunchTemplate LicenseSpecifications MaintenanceOptions "
     "MetadataOptions Monitoring NetworkInterfaces NetworkPerformanceOptions Operator "
     "Placement PrivateDnsNameOptions PrivateIpAddress RamdiskId SecondaryInterfaces "
     "SecurityGroupIds SecurityGroups SubnetId SubnetIds TagSpecifications AdditionalInfo"},
    {"BlockDeviceMappings", "DeviceName Ebs NoDevice VirtualName"},
    {"BlockDeviceMappings/Ebs",
     "AvailabilityZone DeleteOnTermination Encrypted Iops KmsKeyId "
     "OutpostArn SnapshotId Throughput VolumeInitializationRate "
     "VolumeSize VolumeType"},
    {"CapacityReservationSpecification", "CapacityReservationPreference CapacityReservationTarget"},
    {"CpuOptions", "AmdSevSnp CoreCount NestedVirtualization ThreadsPerCore"},
    {"IamInstanceProfile", "Arn Name"},
    {"InstanceMarketOptions", "MarketType SpotOptions"},
    {"InstanceMarketOptions/SpotOptions",
     "BlockDurationMinutes InstanceInterruptionBehavior "
     "MaxPrice SpotInstanceType ValidUntil"},
    {"LaunchTemplate", "LaunchTemplateId LaunchTemplateName Version"},
    {"MetadataOptions",
     "HttpEndpoint HttpProtocolIpv6 HttpPutResponseHopLimit HttpTokens "
     "InstanceMetadataTags"},
    {"NetworkInterfaces",
     "AssociateCarrierIpAddress AssociatePublicIpAddress ConnectionTrackingSpecification "
     "DeleteOnTermination Description DeviceIndex EnaQueueCount EnaSrdSpecification Groups "
     "InterfaceType Ipv4PrefixCount Ipv4Prefixes Ipv6AddressCount Ipv6Addresses Ipv6PrefixCount "
     "Ipv6Prefixes NetworkCardIndex NetworkInterfaceId PrimaryIpv6 PrivateIpAddress "
     "PrivateIpAddresses SecondaryPrivateIpAddressCount SubnetId"},
    {"Placement",
     "Affinity AvailabilityZone AvailabilityZoneId GroupId GroupName HostId "
     "HostResourceGroupArn PartitionNumber SpreadDomain Tenancy"},
    {"TagSpecifications", "ResourceType Tags"},
    {"TagSpecifications/Tags", "Key Value"},
};

// Where the Query API's name is not that of the member.
struct QueryName {
  std::string_view path, name;
};
constexpr QueryName kQueryNames[] = {
    {"BlockDeviceMappings", "BlockDeviceMapping"},
    {"ElasticInferenceAccelerators", "ElasticInferenceAccelerator"},
    {"Ipv6Addresses", "Ipv6Address"},
    {"LicenseSpecifications", "LicenseSpecification"},
    {"Monitoring/MetricCategoryIds", "MetricCategoryId"},
    {"NetworkInterfaces", "NetworkInterface"},
    {"NetworkInterfaces/Groups", "SecurityGroupId"},
    {"NetworkInterfaces/Ipv4Prefixes", "Ipv4Prefix"},
    {"NetworkInterfaces/Ipv6Prefixes", "Ipv6Prefix"},
    {"SecondaryInterfaces", "SecondaryInterface"},
    {"SecondaryInterfaces/PrivateIpAddresses", "PrivateIpAddress"},
    {"SecurityGroupIds", "SecurityGroupId"},
    {"SecurityGroups", "SecurityGroup"},
    {"TagSpecifications", "TagSpecification"},
    {"TagSpecifications/Tags", "Tag"},
    {"*/UserIdGroupPairs", "Groups"},
};

// What rt decides itself, and where it is said instead.
struct OwnKey {
  std::string_view name, hint;
};
constexpr OwnKey kOwnKeys[] = {
    {"ClientToken", "rt makes one for each machine"},
    {"DryRun", "'rt plan' prints what would be launched"},
    {"InstanceInitiatedShutdownBehavior", "machines of rt always end with 'terminate'"},
    {"MaxCount", "write max_workers"},
    {"MinCount", "write min_workers"},
    {"UserData", "write setup_commands: rt's own user data starts the worker"},
};

std::string_view QueryNameOf(std::string_view path, std::string_view name) {
  for (const QueryName& one : kQueryNames)
    if (one.path == path) return one.name;
  return name;
}

absl::Status CheckName(const std::string& type_path, const std::string& name,
                       const std::string& place) {
  for (const OwnKey& own : kOwnKeys)
    if (type_path.empty() && own.name == name)
      return InvalidAt(place, "'" + name + "' is set by rt", std::string(own.hint));
  const bool is_plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
  for (const Members& members : kMembers) {
    if (members.path != type_path) continue;
    const std::vector<std::string> known = Split(members.names, ' ');
    if (std::find(known.begin(), known.end(), name) != known.end()) return absl::OkStatus();
    if (!is_plain || NearestWord(name, known).has_value())
      return InvalidAt(place, "unknown key '" + Excerpt(name) + "'", DidYouMean(name, known));
  }
  if (!is_plain) return InvalidAt(place, "unknown key '" + Excerpt(name) + "'");
  return absl::OkStatus();
}

class Writer {
 public:
  absl::Status Add(const Json& value, const std::string& type_path, const std::string& place,
                   const std::string& query, int depth) {
    if (depth > kDepthMax) return InvalidAt(place, "nested too deeply");
    if (value.is_null()) return absl::OkStatus();
    if (value.is_object()) return AddMembers(value, type_path, place, query, depth);
    if (value.is_array()) return AddItems(value, type_path, place, query, depth);
    parameters.emplace_back(query, value.is_string() ? value.AsString()
                                   : value.is_bool() ? (value.AsBool() ? "true" : "false")
                                   : value.is_int()  ? std::to_string(value.AsInt())
                                                     : FormatDouble(value.AsDouble()));
    return absl::OkStatus();
  }
  Ec2Parameters parameters;

 private:
  absl::Status AddMembers(const Json& value, const std::string& type_path, const std::string& place,
                          const std::string& query, int depth) {
    for (const auto& [name, member] : value.object()) {
      const std::string at = place + "/" + name;
      RT_RETURN_IF_ERROR(CheckName(type_path, name, at));
      const std::string type = type_path.empty() ? name : type_path + "/" + name;
      const std::string named(QueryNameOf(type, name));
      RT_RETURN_IF_ERROR(
          Add(member, type, at, query.empty() ? named : query + "." + named, depth + 1));
    }
    return absl::OkStatus();
  }
  absl::Status AddItems(const Json& value, const std::string& type_path, const std::string& place,
                        const std::string& query, int depth) {
    if (value.array().size() > kItemsMax) return InvalidAt(place, "the list is too long");
    for (size_t i = 0; i < value.array().size(); ++i)
      RT_RETURN_IF_ERROR(Add(value.array()[i], type_path, place + "/" + std::to_string(i),
                             query + "." + std::to_string(i + 1), depth + 1));
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status InvalidAt(const std::string& path, const std::string& message,
                       const std::string& hint) {
  return WithPosition(Invalid(message, hint), {.file = path});
}

absl::StatusOr<Ec2Parameters> RunParametersOf(const Json& node_config, std::string_view path) {
  if (!node_config.is_object())
    return InvalidAt(std::string(path), "node_config must be a map of keys");
  Writer writer;
  RT_RETURN_IF_ERROR(writer.Add(node_config, "", std::string(path), "", 0));
  return std::move(writer.parameters);
}

absl::StatusOr<Ec2Parameters> FlattenForEc2(const Json& value, const std::string& path) {
  if (!value.is_object()) return InvalidAt(path, "must be a map of keys");
  Writer writer;
  // Below a path that names no structure of RunInstances, every plain name is taken.
  RT_RETURN_IF_ERROR(writer.Add(value, "*", path, "", 0));
  return std::move(writer.parameters);
}

}  // namespace rt
