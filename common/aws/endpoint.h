// Where a service of AWS, or one that speaks its protocol, is reached. Pure but for the profile's
// files.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/aws/credential_chain.h"

namespace rt {

struct AwsEndpoint {
  std::string region;
  std::string url;  // "https://host[:port]" of a service that is not AWS; empty for AWS.
};
struct AwsEndpointAsk {
  std::string_view service;  // As in AWS_ENDPOINT_URL_S3.
  std::string_view url;      // Given; may be empty, as `region`.
  std::string_view region;
  std::string_view region_otherwise = "us-east-1";
};
// URL: the given one, AWS_ENDPOINT_URL_<service>, AWS_ENDPOINT_URL, the profile's endpoint_url.
// Region: the given one, AWS_REGION, AWS_DEFAULT_REGION, the profile's.
absl::StatusOr<AwsEndpoint> FindAwsEndpoint(const AwsEndpointAsk& ask,
                                            const Environment& environment);

// The Host header for "https://host[:port]": without the port that is the scheme's own.
std::string HostOfUrl(std::string_view url);

}  // namespace rt
