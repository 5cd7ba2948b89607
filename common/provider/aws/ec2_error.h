// What an error of EC2 means for whoever asked: the class of a provider's error, whether the same
// call may be made again at once, and whether another zone, type or market may still have a
// machine. Pure. Source: "Error codes for the Amazon EC2 API" in its API reference.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/spec/pool.h"

namespace rt {

struct Ec2Meaning {
  ProviderError error = ProviderError::kBadConfiguration;
  bool is_throttled = false;          // Nothing was done; the same call succeeds later.
  bool may_be_had_elsewhere = false;  // In another zone, of another type, in the other market.
  bool is_credentials = false;        // The key, its rights or the account.
};
// `code` is empty when the answer had none.
Ec2Meaning MeaningOfEc2(std::string_view code, int http_status);

// The error of a call such as "EC2 RunInstances", with its class, its hint and, for Ec2CodeOf, its
// code.
absl::Status MakeEc2Error(std::string_view call, int http_status, const std::string& code,
                          const std::string& message);
// "InsufficientInstanceCapacity"; empty for other errors.
std::string Ec2CodeOf(const absl::Status& status);
// Whether the next step of the ladder is worth asking.
bool MayBeHadElsewhere(const absl::Status& status);

}  // namespace rt
