#include "common/aws/credential_chain.h"

#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "common/aws/xml_tree.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/run/subprocess.h"

namespace rt {
namespace {

constexpr Millis kRefreshBefore = 300'000;
constexpr Millis kProcessDeadline = 60'000;
constexpr Millis kMetadataDeadline = 1'000;  // A machine without a metadata server must not wait.
constexpr Millis kStsDeadline = 30'000;
constexpr Bytes kAnswerBytesMax = 1 << 20;
constexpr char kContainerHost[] = "http://169.254.170.2";
constexpr char kMachineHost[] = "http://169.254.169.254";

// The one that people ask for first; what is found there is not said.
absl::Status Refused(std::string_view place, std::string_view why, std::string_view hint = "") {
  absl::Status status = absl::PermissionDeniedError(
      ToAbsl("AWS credentials from " + std::string(place) + ": " + std::string(why)));
  return hint.empty() ? status : WithHint(status, hint);
}

// Words as a shell would part them, for quotes and blanks only: nothing is run by a shell.
std::vector<std::string> SplitCommand(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  bool open = false;
  char quote = 0;
  for (char c : command) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      open = true;
    } else if (c == ' ' || c == '\t') {
      if (open) words.push_back(std::exchange(word, ""));
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (open) words.push_back(word);
  return words;
}

// Where a container's credentials may come from over plain HTTP: this machine only.
bool IsLocalHost(const std::string& url) {
  for (const char* host : {"http://169.254.170.2", "http://169.254.170.23", "http://127.0.0.1",
                           "http://localhost", "http://[fd00:ec2::23]", "http://[::1]"}) {
    std::string_view rest = url;
    if (!rest.starts_with(host)) continue;
    rest.remove_prefix(std::string_view(host).size());
    if (rest.empty() || rest.front() == '/' || rest.front() == ':') return true;
  }
  return url.starts_with("https://");
}

}  // namespace

Environment ProcessEnvironment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

absl::StatusOr<AwsCredentials> ParseAwsCredentials(std::string_view json, std::string_view what) {
  // The parser's message is left out: it could quote what it read.
  auto parsed = Json::Parse(json);
  if (!parsed.ok() || !parsed->is_object()) return Refused(what, "the answer is not JSON");
  AwsCredentials credentials{.access_key_id = parsed->GetString("AccessKeyId"),
                             .secret_access_key = parsed->GetString("SecretAccessKey"),
                             .session_token = parsed->GetString("SessionToken")};
  if (credentials.session_token.empty()) credentials.session_token = parsed->GetString("Token");
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty())
    return Refused(what, "the answer has no AccessKeyId and SecretAccessKey" +
                             (parsed->Find("Code") ? ": " + parsed->GetString("Code") : ""));
  const std::string expiration = parsed->GetString("Expiration");
  if (expiration.empty()) return credentials;
  credentials.expires_at = ParseIsoTime(expiration);
  if (credentials.expires_at == 0)
    return Refused(what, "an Expiration that is no time: " + EscapeControl(expiration));
  return credentials;
}

CredentialChain::CredentialChain(HttpClient& http, Environment environment,
                                 std::optional<AwsCredentials> explicit_ones)
    : http_(http), environment_(std::move(environment)), explicit_(std::move(explicit_ones)) {}

std::string CredentialChain::Value(const std::string& name) const {
  auto found = environment_.find(name);
  return found == environment_.end() ? "" : found->second;
}

absl::StatusOr<AwsCredentials> CredentialChain::Get(Millis now) {
  if (explicit_.has_value()) return *explicit_;
  std::lock_guard lock(mutex_);
  const bool lasts = current_.has_value() && current_->expires_at == 0;
  if (current_.has_value() && !expired_ && (lasts || now < current_->expires_at - kRefreshBefore))
    return *current_;
  Found found = Search(now);
  if (found.ok() && found->has_value()) {
    current_ = std::move(**found);
    expired_ = false;
    return *current_;
  }
  if (current_.has_value() && !expired_ && now < current_->expires_at) {
    RT_LOG(kWarning) << "AWS credentials were not refreshed and expire at "
                     << FormatTime(current_->expires_at) << ": " << MessageOf(found.status());
    return *current_;
  }
  if (!found.ok()) return found.status();
  return WithHint(absl::PermissionDeniedError("no AWS credentials were found"),
                  "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for the head, write a profile "
                  "to ~/.aws/credentials, or give the machine a role");
}

void CredentialChain::Expire() {
  std::lock_guard lock(mutex_);
  expired_ = true;
}

CredentialChain::Found CredentialChain::Search(Millis) {
  for (auto place : {&CredentialChain::FromEnvironment, &CredentialChain::FromWebIdentity,
                     &CredentialChain::FromProfile, &CredentialChain::FromContainer,
                     &CredentialChain::FromMachine}) {
    Found found = (this->*place)();
    if (!found.ok() || found->has_value()) return found;
  }
  return std::nullopt;
}

CredentialChain::Found CredentialChain::FromEnvironment() {
  AwsCredentials credentials{.access_key_id = Value("AWS_ACCESS_KEY_ID"),
                             .secret_access_key = Value("AWS_SECRET_ACCESS_KEY"),
                             .session_token = Value("AWS_SESSION_TOKEN")};
  if (credentials.access_key_id.empty() && credentials.secret_access_key.empty())
    return std::nullopt;
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty())
    return Refused("the environment",
                   "one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is missing");
  return credentials;
}

CredentialChain::Found CredentialChain::FromWebIdentity() {
  const std::string file = Value("AWS_WEB_IDENTITY_TOKEN_FILE"), role = Value("AWS_ROLE_ARN");
  if (file.empty()) return std::nullopt;
  if (role.empty()) return Refused("the web identity", "AWS_ROLE_ARN is not set");
  RT_ASSIGN_OR_RETURN(std::string token, ReadFile(file, kAnswerBytesMax));
  std::string session = Value("AWS_ROLE_SESSION_NAME");
  std::string region = Value("AWS_REGION");
  if (region.empty()) region = Value("AWS_DEFAULT_REGION");
  std::string endpoint = Value("AWS_ENDPOINT_URL_STS");
  if (endpoint.empty()) endpoint = Value("AWS_ENDPOINT_URL");
  if (endpoint.empty())
    endpoint = "https://sts." + (region.empty() ? "" : region + ".") + "amazonaws.com";
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const std::string body =
      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" + PercentEncode(role) +
      "&RoleSessionName=" + PercentEncode(session.empty() ? "rt-head" : session) +
      "&WebIdentityToken=" + PercentEncode(Trim(token));
  auto answer = http_.Do({.method = "POST",
                          .url = endpoint + "/",
                          .headers = {{"Content-Type", "application/x-www-form-urlencoded"}},
                          .body = body,
                          .timeout = kStsDeadline,
                          .answer_bytes_max = kAnswerBytesMax});
  if (!answer.ok()) return Annotate(answer.status(), "AWS credentials from the web identity");
  const XmlNode root = ParseXmlOrNothing(answer->body);
  if (answer->status != 200)
    return Refused("the web identity",
                   "STS answers " + std::to_string(answer->status) + " " + root.AnyText("Code") +
                       ": " + EscapeControl(root.AnyText("Message")),
                   "check AWS_ROLE_ARN and the trust policy of the role");
  AwsCredentials credentials{.access_key_id = root.AnyText("AccessKeyId"),
                             .secret_access_key = root.AnyText("SecretAccessKey"),
                             .session_token = root.AnyText("SessionToken"),
                             .expires_at = ParseIsoTime(root.AnyText("Expiration"))};
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty())
    return Refused("the web identity", "STS answers without credentials");
  return credentials;
}

CredentialChain::Found CredentialChain::FromProcess(const std::string& command) {
  std::vector<std::string> argv = SplitCommand(command);
  if (argv.empty()) return Refused("credential_process", "the command is empty");
  auto result = RunProgram({.argv = argv}, "", kProcessDeadline);
  if (!result.ok()) return Annotate(result.status(), "credential_process " + argv[0]);
  if (!result->exit.ok()) return Refused("credential_process " + argv[0], ToString(result->exit));
  // What the program says on its standard error stands around the answer.
  const std::string& output = result->output;
  const size_t begin = output.find('{'), end = output.rfind('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    return Refused("credential_process " + argv[0], "the output is not JSON");
  return ParseAwsCredentials(std::string_view(output).substr(begin, end + 1 - begin),
                             "credential_process " + argv[0]);
}

CredentialChain::Found CredentialChain::FromContainer() {
  const std::string relative = Value("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  std::string url =
      relative.empty() ? Value("AWS_CONTAINER_CREDENTIALS_FULL_URI") : kContainerHost + relative;
  if (url.empty()) return std::nullopt;
  if (!IsLocalHost(url))
    return Refused("the container",
                   "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor local");
  HttpRequest request{.url = url,
                      .timeout = 5 * kMetadataDeadline,
                      .answer_bytes_max = kAnswerBytesMax,
                      .direct = true};
  std::string token = Value("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (std::string file = Value("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty()) {
    RT_ASSIGN_OR_RETURN(token, ReadFile(file, kAnswerBytesMax));
  }
  if (!token.empty()) request.headers.emplace_back("Authorization", Trim(token));
  auto answer = http_.Do(request);
  if (!answer.ok()) return Annotate(answer.status(), "AWS credentials from the container");
  if (answer->status != 200)
    return Refused("the container", "its endpoint answers " + std::to_string(answer->status));
  return ParseAwsCredentials(answer->body, "the container");
}

CredentialChain::Found CredentialChain::FromMachine() {
  if (Value("AWS_EC2_METADATA_DISABLED") == "true") return std::nullopt;
  std::string host = Value("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (host.empty()) host = kMachineHost;
  while (host.ends_with('/')) host.pop_back();
  auto call = [&](std::string method, const std::string& path,
                  std::vector<std::pair<std::string, std::string>> headers) {
    return http_.Do({.method = std::move(method),
                     .url = host + path,
                     .headers = std::move(headers),
                     .connect_timeout = kMetadataDeadline,
                     .timeout = kMetadataDeadline,
                     .answer_bytes_max = kAnswerBytesMax,
                     .direct = true});
  };
  auto token =
      call("PUT", "/latest/api/token", {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}});
  if (!token.ok()) return std::nullopt;  // No machine of AWS.
  if (token->status != 200)
    return Refused("the machine",
                   "IMDSv2 answers " + std::to_string(token->status) + " for a token");
  const std::string folder = "/latest/meta-data/iam/security-credentials/";
  auto role = call("GET", folder, {{"X-aws-ec2-metadata-token", token->body}});
  if (!role.ok()) return Annotate(role.status(), "AWS credentials from the machine");
  if (role->status == 404) return std::nullopt;  // A machine without a role.
  const std::string name(Trim(role->body));
  if (role->status != 200 || name.empty())
    return Refused("the machine",
                   "IMDSv2 answers " + std::to_string(role->status) + " for its role");
  auto answer =
      call("GET", folder + PercentEncode(name), {{"X-aws-ec2-metadata-token", token->body}});
  if (!answer.ok()) return Annotate(answer.status(), "AWS credentials from the machine");
  if (answer->status != 200)
    return Refused("the machine", "IMDSv2 answers " + std::to_string(answer->status) +
                                      " for the role " + EscapeControl(name));
  return ParseAwsCredentials(answer->body, "the machine's role " + EscapeControl(name));
}

}  // namespace rt
