// Ray's `node_config`, which has the members of RunInstances as boto3 names them, in the form of
// EC2's Query API: {"BlockDeviceMappings": [{"Ebs": {"VolumeSize": 140}}]} becomes
// BlockDeviceMapping.1.Ebs.VolumeSize=140. Pure. Source of the names: the API reference of
// RunInstances. A key that this release does not know is passed on as it is, unless it resembles a
// known one: EC2 judges it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/provider/aws/ec2_client.h"

namespace rt {

// Errors carry the path of the value as their position's file (YamlDocument::At); `path` is that of
// the node_config.
absl::StatusOr<Ec2Parameters> RunParametersOf(const Json& node_config, std::string_view path);

// Another structure of the API whose Query names are those of its members, such as one of
// IpPermissions.
absl::StatusOr<Ec2Parameters> FlattenForEc2(const Json& value, const std::string& path);

// The error of a value of the configuration; the caller's document turns the path into a place.
absl::Status InvalidAt(const std::string& path, const std::string& message,
                       const std::string& hint = "");

}  // namespace rt
