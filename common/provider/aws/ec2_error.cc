#include "common/provider/aws/ec2_error.h"

#include <algorithm>
#include <span>

#include "absl/strings/cord.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/node_provider.h"

namespace rt {
namespace {

constexpr char kCodePayload[] = "rt/ec2-code";
constexpr size_t kMessageBytesMax = 400;  // Some carry a kilobyte of encoded details.

using Codes = std::span<const std::string_view>;

bool IsOneOf(std::string_view code, Codes codes) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

constexpr std::string_view kThrottled[] = {"RequestLimitExceeded",      "Throttling",
                                           "ThrottlingException",       "RequestThrottled",
                                           "RequestThrottledException", "TooManyRequestsException",
                                           "EC2ThrottledException",     "BandwidthLimitExceeded",
                                           "PriorRequestNotComplete",   "SlowDown"};
constexpr std::string_view kCapacity[] = {"InsufficientInstanceCapacity",
                                          "InsufficientHostCapacity",
                                          "InsufficientCapacity",
                                          "InsufficientReservedInstanceCapacity",
                                          "InsufficientFreeAddressesInSubnet",
                                          "InsufficientAddressCapacity",
                                          "InsufficientVolumeCapacity",
                                          "ReservationCapacityExceeded",
                                          "SpotMaxPriceTooLow",
                                          "Server.InsufficientInstanceCapacity",
                                          "CapacityNotAvailable"};
// In this zone, or for spot; never anywhere when each step of the ladder says so.
constexpr std::string_view kUnsupported[] = {"Unsupported", "UnsupportedHostConfiguration",
                                             "UnsupportedInstanceTypeOnAvailabilityZone"};
constexpr std::string_view kCredentials[] = {"AuthFailure",
                                             "UnauthorizedOperation",
                                             "AccessDenied",
                                             "AccessDeniedException",
                                             "Blocked",
                                             "ExpiredToken",
                                             "IncompleteSignature",
                                             "InvalidClientTokenId",
                                             "MissingAuthenticationToken",
                                             "OptInRequired",
                                             "PendingVerification",
                                             "RequestExpired",
                                             "SignatureDoesNotMatch",
                                             "UnrecognizedClientException"};
constexpr std::string_view kLater[] = {"InternalError", "InternalFailure",    "ServerInternal",
                                       "Unavailable",   "ServiceUnavailable", "RequestTimeout"};

bool IsQuota(std::string_view code) {
  return code.ends_with("LimitExceeded") || code == "MaxSpotInstanceCountExceeded" ||
         code == "ResourceCountExceeded" || code == "SnapshotCreationPerVolumeRateExceeded";
}

std::string HintFor(std::string_view code) {
  if (code == "VcpuLimitExceeded" || code == "InstanceLimitExceeded")
    return "ask AWS for a higher quota (Service Quotas, Amazon EC2), or use another instance type";
  if (code == "MaxSpotInstanceCountExceeded")
    return "ask AWS for a higher spot quota, or write 'spot: {fallback: on_demand}'";
  if (code == "SpotMaxPriceTooLow")
    return "raise MaxPrice, or leave it out to pay up to the on-demand price";
  if (code == "UnauthorizedOperation" || code == "AccessDenied")
    return "allow ec2:RunInstances, TerminateInstances, CreateTags, Describe*, "
           "CreateSecurityGroup, AuthorizeSecurityGroupIngress, RevokeSecurityGroupIngress and "
           "UpdateSecurityGroupRuleDescriptionsIngress to the credentials in use, and "
           "iam:PassRole for an IamInstanceProfile";
  if (code == "AuthFailure" || code == "InvalidClientTokenId" || code == "SignatureDoesNotMatch")
    return "the access key or its secret is wrong: check the credentials in use";
  if (code == "ExpiredToken" || code == "RequestExpired")
    return "renew the session token, and check this machine's clock";
  if (code.starts_with("InvalidAMIID."))
    return "an image has another id in each region: take the ImageId of this region";
  if (code == "InvalidKeyPair.NotFound")
    return "create the key pair in this region, or leave KeyName out";
  if (code == "OptInRequired")
    return "accept the terms of the image in AWS Marketplace, or activate the account";
  return "";
}

}  // namespace

Ec2Meaning MeaningOfEc2(std::string_view code, int http_status) {
  if (IsOneOf(code, kThrottled) || (code.empty() && http_status == 429))
    return {.error = ProviderError::kRetryLater, .is_throttled = true};
  if (IsOneOf(code, kCapacity))
    return {.error = ProviderError::kCapacity, .may_be_had_elsewhere = true};
  if (IsQuota(code)) return {.error = ProviderError::kQuota, .may_be_had_elsewhere = true};
  if (IsOneOf(code, kUnsupported))
    return {.error = ProviderError::kBadConfiguration, .may_be_had_elsewhere = true};
  if (IsOneOf(code, kCredentials)) return {.is_credentials = true};
  // Without a code it was no answer of EC2, but of something on the way to it.
  if (code.empty() || http_status >= 500 || IsOneOf(code, kLater))
    return {.error = ProviderError::kRetryLater};
  return {};
}

absl::Status MakeEc2Error(std::string_view call, int http_status, const std::string& code,
                          const std::string& message) {
  std::string text = std::string(call) + ": " +
                     (code.empty() ? "HTTP status " + std::to_string(http_status)
                                   : EscapeControl(code.substr(0, 100)));
  if (!message.empty())
    text += ": " + EscapeControl(ValidUtf8(message, kMessageBytesMax)) +
            (message.size() > kMessageBytesMax ? "..." : "");
  absl::Status status =
      MakeProviderError(MeaningOfEc2(code, http_status).error, text, HintFor(code));
  if (!code.empty()) status.SetPayload(kCodePayload, absl::Cord(ToAbsl(code)));
  return status;
}

std::string Ec2CodeOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kCodePayload);
  return payload.has_value() ? std::string(*payload) : "";
}

bool MayBeHadElsewhere(const absl::Status& status) {
  const std::string code = Ec2CodeOf(status);
  return !code.empty() && MeaningOfEc2(code, 400).may_be_had_elsewhere;
}

}  // namespace rt
