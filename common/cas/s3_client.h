// One signed call to an S3-compatible service, with what heals by itself: a clock that is wrong
// (the skew is taken from the answer's Date), credentials that expired (fetched anew once), and a
// bucket in another region (signed anew for it, at AWS's own endpoints). Everything else becomes a
// Status that says what to do. Thread-safe; blocks. Payloads are signed by their SHA-256, which
// every S3-compatible service understands and which guards them on the way.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/aws/credential_chain.h"
#include "common/run/http.h"

namespace rt {

struct S3Location {
  std::string bucket;
  std::string prefix;    // Of every key, without outer slashes; may be empty.
  std::string region;    // "us-east-1" when nothing else is said.
  std::string endpoint;  // "https://host[:port]" of a service that is not AWS; empty for AWS.
};
// "s3://bucket/prefix". Endpoint: the argument, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the
// profile's endpoint_url. Region: the argument, AWS_REGION, AWS_DEFAULT_REGION, the profile's.
absl::StatusOr<S3Location> ParseS3Location(std::string_view url, std::string_view endpoint,
                                           std::string_view region,
                                           const Environment& environment);

struct S3Call {
  std::string method = "GET";
  std::string key;  // Within the prefix; empty for the bucket itself.
  std::vector<std::pair<std::string, std::string>> query;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string_view body;
};

class S3Client {
 public:
  // `clock`: milliseconds since 1970, the wall clock when absent.
  S3Client(HttpClient& http, CredentialChain& credentials, S3Location location,
           std::function<Millis()> clock = nullptr);
  // Answers with 2xx only.
  absl::StatusOr<HttpAnswer> Do(const S3Call& call);
  // The Status of an error that S3 describes in XML.
  absl::Status StatusOf(const S3Call& call, int http_status, std::string_view xml) const;
  const S3Location& location() const { return location_; }
  std::string FullKey(const std::string& key) const;

 private:
  struct Place {
    std::string host;
    std::string origin;  // Scheme and host.
    std::string path;
    std::string region;
  };
  Place PlaceOf(const S3Call& call);
  absl::StatusOr<HttpAnswer> Send(const S3Call& call, const std::string& payload_hash);
  bool Heal(const S3Call& call, const HttpAnswer& answer);

  HttpClient& http_;
  CredentialChain& credentials_;
  const S3Location location_;
  const std::function<Millis()> clock_;
  std::mutex mutex_;
  Millis skew_ = 0;     // Of the server's clock against ours.
  std::string region_;  // Of the bucket, as learnt.
};

}  // namespace rt
