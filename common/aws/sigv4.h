// AWS Signature Version 4: signs a request with a secret key. Pure: time and credentials are
// arguments. Source: "Create a signed AWS API request" in the IAM User Guide. Paths are encoded
// once and not normalised, as S3 wants it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/time.h"

namespace rt {

struct AwsCredentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // Empty for keys that last.
  Millis expires_at = 0;      // 0: never.
};

struct SignedRequest {
  std::string method = "GET";
  std::string host;  // As the Host header has it: with the port unless it is the scheme's own.
  std::string path = "/";                                    // Not yet encoded.
  std::vector<std::pair<std::string, std::string>> query;    // Not yet encoded.
  std::vector<std::pair<std::string, std::string>> headers;  // All of them are signed.
  std::string payload_hash;  // Hex SHA-256 of the body, or kUnsignedPayload.
};
inline constexpr char kUnsignedPayload[] = "UNSIGNED-PAYLOAD";

struct SigningScope {
  std::string region;
  std::string service = "s3";
  Millis at = 0;
};

// Every header to send besides Host: those of the request, x-amz-date, x-amz-security-token when
// there is one, and Authorization.
std::vector<std::pair<std::string, std::string>> SignRequest(const SignedRequest& request,
                                                             const SigningScope& scope,
                                                             const AwsCredentials& credentials);

std::string Sha256Hex(std::string_view bytes);
// RFC 3986: everything but A-Z a-z 0-9 - . _ ~ becomes %XX; '/' too unless `keep_slashes`.
std::string PercentEncode(std::string_view text, bool keep_slashes = false);
// Undoes %XX; what is no such byte stays as it is.
std::string PercentDecode(std::string_view text);
// Encoded path, '?' and encoded sorted query: what stands behind the host in the URL.
std::string RequestTarget(const SignedRequest& request);

}  // namespace rt
