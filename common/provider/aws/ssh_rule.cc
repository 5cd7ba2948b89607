#include "common/provider/aws/ssh_rule.h"

#include <map>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/provider/aws/ec2_error.h"
#include "common/provider/aws/ec2_provider.h"
#include "common/run/http.h"

namespace rt {
namespace {

constexpr char kDescription[] = "ssh for a client of rt until ";  // Then the time, in UTC.
constexpr char kNoSuchRule[] = "InvalidPermission.NotFound";

// Our rules in this group: from where, and when each ends.
std::map<std::string, Millis> RulesOf(const XmlNode& group) {
  std::map<std::string, Millis> rules;
  for (const XmlNode& rule : group.Items("ipPermissions")) {
    if (rule.Text("ipProtocol") != "tcp" || rule.Text("fromPort") != "22") continue;
    for (const XmlNode& range : rule.Items("ipRanges")) {
      const std::string description = range.Text("description");
      if (!description.starts_with(kDescription)) continue;
      rules[range.Text("cidrIp")] = ParseIsoTime(description.substr(sizeof(kDescription) - 1));
    }
  }
  return rules;
}

// `until`: 0 when the call takes no description.
absl::Status ChangeRule(Ec2Client& client, const XmlNode& group, const std::string& from,
                        const std::string& action, Millis until = 0) {
  Ec2Parameters parameters = {{"GroupId", group.Text("groupId")},
                              {"IpPermissions.1.IpProtocol", "tcp"},
                              {"IpPermissions.1.FromPort", "22"},
                              {"IpPermissions.1.ToPort", "22"},
                              {"IpPermissions.1.IpRanges.1.CidrIp", from}};
  if (until != 0)
    parameters.emplace_back("IpPermissions.1.IpRanges.1.Description",
                            kDescription + FormatTime(until));
  return client.Call(action, parameters).status();
}

// OK as well when another client was first, or when the cluster's file opens the port.
absl::Status AddRule(Ec2Client& client, const XmlNode& group, const std::string& from,
                     Millis until) {
  const absl::Status status = ChangeRule(client, group, from, kAuthorizeIngress, until);
  return Ec2CodeOf(status) == "InvalidPermission.Duplicate" ? absl::OkStatus() : status;
}

absl::Status RemoveRule(Ec2Client& client, const XmlNode& group, const std::string& from) {
  const absl::Status status = ChangeRule(client, group, from, "RevokeSecurityGroupIngress");
  return Ec2CodeOf(status) == kNoSuchRule ? absl::OkStatus() : status;
}

absl::StatusOr<std::vector<XmlNode>> Groups(Ec2Client& client, const std::string& filter,
                                            const std::string& value) {
  Ec2Parameters parameters;
  AddEc2Filter(parameters, filter, {value});
  return client.Pages("DescribeSecurityGroups", "securityGroupInfo", parameters);
}

}  // namespace

absl::Status OpenSshPort(Ec2Client& client, const Ec2NetworkSpec& spec, const std::string& from,
                         Millis until) {
  RT_ASSIGN_OR_RETURN(const auto groups, Groups(client, "group-name", spec.group_name));
  for (const XmlNode& group : groups) {
    const std::map<std::string, Millis> rules = RulesOf(group);
    const auto rule = rules.find(from);
    if (rule != rules.end() && rule->second >= until) continue;
    absl::Status renewed = absl::NotFoundError("");
    if (rule != rules.end()) {
      renewed =
          ChangeRule(client, group, from, "UpdateSecurityGroupRuleDescriptionsIngress", until);
      if (!renewed.ok() && Ec2CodeOf(renewed) != kNoSuchRule) return renewed;
    }
    if (!renewed.ok()) RT_RETURN_IF_ERROR(AddRule(client, group, from, until));
  }
  return absl::OkStatus();
}

absl::Status CloseSshPort(Ec2Client& client, const Ec2NetworkSpec& spec, const std::string& from) {
  RT_ASSIGN_OR_RETURN(const auto groups, Groups(client, "group-name", spec.group_name));
  for (const XmlNode& group : groups)
    for (const auto& [addresses, end] : RulesOf(group))
      if (from.empty() || from == addresses)
        RT_RETURN_IF_ERROR(RemoveRule(client, group, addresses));
  return absl::OkStatus();
}

absl::Status CloseExpiredSsh(Ec2Client& client, const std::string& cluster_id, Millis now) {
  RT_ASSIGN_OR_RETURN(const auto groups,
                      Groups(client, std::string("tag:") + kEc2ClusterTag, cluster_id));
  for (const XmlNode& group : groups)
    for (const auto& [addresses, end] : RulesOf(group))
      if (end < now) RT_RETURN_IF_ERROR(RemoveRule(client, group, addresses));
  return absl::OkStatus();
}

}  // namespace rt
