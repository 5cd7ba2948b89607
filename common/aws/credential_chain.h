// Where AWS credentials come from, in the order of the AWS tools: given explicitly; the
// environment; a web identity (AWS_WEB_IDENTITY_TOKEN_FILE, as on EKS); the profile in ~/.aws,
// credential_process included; the container's endpoint; the machine's role (IMDSv2). The first
// place that has something is used, and what is wrong there is an error. Thread-safe; may block.
// Secrets are never logged and stand in no error.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/aws/sigv4.h"
#include "common/run/http.h"

namespace rt {

using Environment = std::map<std::string, std::string>;
Environment ProcessEnvironment();

// The settings of one profile, those of the credentials file before those of the config file.
absl::StatusOr<std::map<std::string, std::string>> ReadAwsProfile(const Environment& environment);
// Of "[section]", "key = value" and '#' lines. Nested settings (indented lines) are left out.
std::map<std::string, std::map<std::string, std::string>> ParseAwsFile(std::string_view text);

class CredentialChain {
 public:
  CredentialChain(HttpClient& http, Environment environment,
                  std::optional<AwsCredentials> explicit_ones = std::nullopt);
  // Refreshed 5 minutes before they expire; older ones are used on while a refresh fails.
  absl::StatusOr<AwsCredentials> Get(Millis now);
  // The server says that they do not hold any more: the next Get asks anew.
  void Expire();

 private:
  using Found = absl::StatusOr<std::optional<AwsCredentials>>;
  Found Search(Millis now);
  Found FromEnvironment();
  Found FromWebIdentity();
  Found FromProfile();
  Found FromProcess(const std::string& command);
  Found FromContainer();
  Found FromMachine();
  std::string Value(const std::string& name) const;

  HttpClient& http_;
  const Environment environment_;
  const std::optional<AwsCredentials> explicit_;
  std::mutex mutex_;
  std::optional<AwsCredentials> current_;
  bool expired_ = false;
};

// The JSON that credential_process, containers and IMDS answer with. `what` names the place.
absl::StatusOr<AwsCredentials> ParseAwsCredentials(std::string_view json, std::string_view what);

}  // namespace rt
