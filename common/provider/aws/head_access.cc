#include "common/provider/aws/head_access.h"

#include <algorithm>
#include <vector>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/ec2_error.h"
#include "common/provider/aws/ec2_provider.h"

namespace rt {
namespace {

constexpr char kPolicyName[] = "rt-head";

// OK as well when the error has one of these codes.
absl::Status CallUnless(Ec2Client& client, const std::string& action,
                        const Ec2Parameters& parameters, const std::vector<std::string>& codes) {
  absl::Status status = client.Call(action, parameters).status();
  const bool was_done = std::find(codes.begin(), codes.end(), Ec2CodeOf(status)) != codes.end();
  return was_done ? absl::OkStatus() : status;
}

Json TextList(const std::vector<std::string>& texts) {
  Json list = Json::MakeArray();
  for (const std::string& text : texts) list.Append(text);
  return list;
}

Json Allow(const std::vector<std::string>& actions, const Json& condition) {
  Json statement =
      Json::MakeObject({{"Effect", "Allow"}, {"Action", TextList(actions)}, {"Resource", "*"}});
  if (condition.is_object()) statement.Set("Condition", condition);
  return statement;
}

std::string PolicyText(Json statements) {
  return Json::MakeObject({{"Version", "2012-10-17"}, {"Statement", std::move(statements)}}).Dump();
}

std::string TrustPolicy(const std::string& region) {
  const std::string domain = region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  Json statements = Json::MakeArray();
  statements.Append(
      Json::MakeObject({{"Effect", "Allow"},
                        {"Principal", Json::MakeObject({{"Service", "ec2." + domain}})},
                        {"Action", "sts:AssumeRole"}}));
  return PolicyText(std::move(statements));
}

std::string HeadPolicy(const std::string& cluster_id, bool passes_roles) {
  const std::string tag = std::string("ec2:ResourceTag/") + kEc2ClusterTag;
  Json statements = Json::MakeArray();
  statements.Append(Allow({"ec2:RunInstances", "ec2:CreateTags", "ec2:Describe*",
                           "ec2:CreateSecurityGroup", "ec2:AuthorizeSecurityGroupIngress"},
                          Json()));
  statements.Append(
      Allow({"ec2:TerminateInstances", "ec2:RevokeSecurityGroupIngress"},
            Json::MakeObject({{"StringEquals", Json::MakeObject({{tag, cluster_id}})}})));
  if (passes_roles)
    statements.Append(Allow(
        {"iam:PassRole"},
        Json::MakeObject(
            {{"StringEquals", Json::MakeObject({{"iam:PassedToService", "ec2.amazonaws.com"}})}})));
  return PolicyText(std::move(statements));
}

}  // namespace

std::string HeadKeyName(const std::string& cluster_id) { return "rt-" + cluster_id; }
std::string HeadRoleName(const std::string& cluster_id) { return "rt-head-" + cluster_id; }

absl::Status ImportHeadKey(Ec2Client& ec2, const std::string& cluster_id,
                           const std::string& public_key,
                           const std::map<std::string, std::string>& tags) {
  Ec2Parameters parameters = {{"KeyName", HeadKeyName(cluster_id)},
                              {"PublicKeyMaterial", Base64Encode(public_key)},
                              {"TagSpecification.1.ResourceType", "key-pair"}};
  int number = 0;
  for (const auto& [key, value] : tags) {
    const std::string tag = "TagSpecification.1.Tag." + std::to_string(++number) + ".";
    parameters.emplace_back(tag + "Key", key);
    parameters.emplace_back(tag + "Value", value);
  }
  return CallUnless(ec2, "ImportKeyPair", parameters, {"InvalidKeyPair.Duplicate"});
}

absl::Status RemoveHeadKey(Ec2Client& ec2, const std::string& cluster_id) {
  return CallUnless(ec2, "DeleteKeyPair", {{"KeyName", HeadKeyName(cluster_id)}},
                    {"InvalidKeyPair.NotFound"});
}

QueryApi IamApi() {
  return {.name = "IAM", .service = "iam", .version = "2010-05-08", .is_global = true};
}

absl::Status MakeHeadRole(Ec2Client& iam, const std::string& cluster_id, bool passes_roles) {
  const std::string name = HeadRoleName(cluster_id);
  RT_RETURN_IF_ERROR(CallUnless(iam, "CreateRole",
                                {{"RoleName", name},
                                 {"AssumeRolePolicyDocument", TrustPolicy(iam.region())},
                                 {"Tags.member.1.Key", kEc2ClusterTag},
                                 {"Tags.member.1.Value", cluster_id}},
                                {"EntityAlreadyExists"}));
  RT_RETURN_IF_ERROR(
      iam.Call("PutRolePolicy", {{"RoleName", name},
                                 {"PolicyName", kPolicyName},
                                 {"PolicyDocument", HeadPolicy(cluster_id, passes_roles)}})
          .status());
  RT_RETURN_IF_ERROR(CallUnless(iam, "CreateInstanceProfile", {{"InstanceProfileName", name}},
                                {"EntityAlreadyExists"}));
  // A profile holds one role: it has it.
  return CallUnless(iam, "AddRoleToInstanceProfile",
                    {{"InstanceProfileName", name}, {"RoleName", name}},
                    {"LimitExceeded", "EntityAlreadyExists"});
}

absl::Status RemoveHeadRole(Ec2Client& iam, const std::string& cluster_id) {
  const std::string name = HeadRoleName(cluster_id);
  const std::vector<std::string> gone = {"NoSuchEntity"};
  RT_RETURN_IF_ERROR(CallUnless(iam, "RemoveRoleFromInstanceProfile",
                                {{"InstanceProfileName", name}, {"RoleName", name}}, gone));
  RT_RETURN_IF_ERROR(
      CallUnless(iam, "DeleteInstanceProfile", {{"InstanceProfileName", name}}, gone));
  RT_RETURN_IF_ERROR(
      CallUnless(iam, "DeleteRolePolicy", {{"RoleName", name}, {"PolicyName", kPolicyName}}, gone));
  return CallUnless(iam, "DeleteRole", {{"RoleName", name}}, gone);
}

}  // namespace rt
