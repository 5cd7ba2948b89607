// One signed call of EC2's Query API, or of another service with such an API: parameters by name
// in, the XML answer as a tree out. What heals by itself is repeated here, within the bounds of
// limits_aws.h: throttling and errors of the service (with full jitter), connections that broke,
// answers that were lost, a clock that is wrong, a session that expired. Every call that is made
// may therefore be carried out twice: RunInstances has to carry a client token. Thread-safe;
// blocks. No secret and no parameter is logged.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/aws/credential_chain.h"
#include "common/aws/endpoint.h"
#include "common/aws/xml_tree.h"
#include "common/base/limits_aws.h"
#include "common/base/rng.h"
#include "common/run/http.h"

namespace rt {

using Ec2Parameters = std::vector<std::pair<std::string, std::string>>;

// A service with a Query API.
struct QueryApi {
  std::string name = "EC2";            // For errors.
  std::string service = "ec2";         // Of its host and its signature.
  std::string version = "2016-11-15";  // Of the API.
  bool is_global = false;              // One for all regions of a partition.
};

class Ec2Client {
 public:
  struct Options {
    QueryApi api = {};
    Millis timeout = limits::kEc2Timeout;     // Of one send.
    std::function<Millis()> clock = nullptr;  // Milliseconds since 1970; absent: the wall clock.
    std::function<void(Millis)> sleep = nullptr;
  };
  Ec2Client(HttpClient& http, CredentialChain& credentials, AwsEndpoint endpoint, Options options);
  Ec2Client(HttpClient& http, CredentialChain& credentials, AwsEndpoint endpoint)
      : Ec2Client(http, credentials, std::move(endpoint), Options{}) {}

  // The root of the answer. Errors carry a ProviderError; one without says that nobody knows
  // whether the call was carried out.
  absl::StatusOr<XmlNode> Call(const std::string& action, const Ec2Parameters& parameters);
  // All pages of a Describe call, the items of the element `set`. Filters are `parameters`.
  absl::StatusOr<std::vector<XmlNode>> Pages(const std::string& action, const std::string& set,
                                             Ec2Parameters parameters);
  const std::string& region() const { return endpoint_.region; }

 private:
  std::string Url() const;
  std::string SignedRegion() const;
  absl::StatusOr<HttpAnswer> Send(const std::string& body);
  bool Heal(const std::string& code, const HttpAnswer& answer);
  void Wait(int failures);

  HttpClient& http_;
  CredentialChain& credentials_;
  const AwsEndpoint endpoint_;
  const Options options_;
  std::mutex mutex_;  // Guards what follows.
  Millis skew_ = 0;   // Of the service's clock against ours.
  Rng rng_;
};

// "Filter.N.Name" and "Filter.N.Value.M", appended.
void AddEc2Filter(Ec2Parameters& parameters, const std::string& name,
                  const std::vector<std::string>& values);

}  // namespace rt
