#include "common/aws/credential_chain.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt {
namespace {

std::string ValueOf(const Environment& environment, const std::string& name) {
  auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

using Sections = std::map<std::string, std::map<std::string, std::string>>;

absl::StatusOr<Sections> ReadSections(const Environment& environment, const std::string& variable,
                                      const std::string& otherwise) {
  std::string path = ValueOf(environment, variable);
  if (path.empty()) {
    const std::string home = ValueOf(environment, "HOME");
    if (home.empty()) return Sections{};
    path = home + "/.aws/" + otherwise;
  }
  auto text = ReadFile(path, 1 << 20);
  if (absl::IsNotFound(text.status())) return Sections{};
  if (!text.ok()) return text.status();
  return ParseAwsFile(*text);
}

std::string ProfileName(const Environment& environment) {
  for (const char* variable : {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"})
    if (std::string name = ValueOf(environment, variable); !name.empty()) return name;
  return "default";
}

}  // namespace

Sections ParseAwsFile(std::string_view text) {
  Sections sections;
  std::string section;
  for (const std::string& line : Split(text, '\n')) {
    const bool indented = !line.empty() && (line[0] == ' ' || line[0] == '\t');
    const std::string_view trimmed = Trim(line);
    if (trimmed.empty() || trimmed[0] == '#' || trimmed[0] == ';') continue;
    if (trimmed.front() == '[' && trimmed.back() == ']') {
      section = std::string(Trim(trimmed.substr(1, trimmed.size() - 2)));
      sections[section];
      continue;
    }
    const size_t equals = trimmed.find('=');
    if (indented || equals == std::string_view::npos) continue;
    sections[section][std::string(Trim(trimmed.substr(0, equals)))] =
        std::string(Trim(trimmed.substr(equals + 1)));
  }
  return sections;
}

absl::StatusOr<std::map<std::string, std::string>> ReadAwsProfile(const Environment& environment) {
  RT_ASSIGN_OR_RETURN(Sections secrets,
                      ReadSections(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials"));
  RT_ASSIGN_OR_RETURN(Sections config, ReadSections(environment, "AWS_CONFIG_FILE", "config"));
  const std::string name = ProfileName(environment);
  std::map<std::string, std::string> profile = secrets[name];
  // In the config file every profile but the default one has the word before its name.
  for (const std::string& section : {"profile " + name, name == "default" ? name : ""})
    for (const auto& [key, value] : config[section]) profile.emplace(key, value);
  const bool asked = environment.contains("AWS_PROFILE");
  if (asked && profile.empty())
    return NotFound("AWS_PROFILE names the profile '" + EscapeControl(name) +
                        "', which stands in neither ~/.aws/credentials nor ~/.aws/config",
                    "write it there, or unset AWS_PROFILE");
  return profile;
}

CredentialChain::Found CredentialChain::FromProfile() {
  RT_ASSIGN_OR_RETURN(auto profile, ReadAwsProfile(environment_));
  const std::string what = "the profile '" + EscapeControl(ProfileName(environment_)) + "'";
  AwsCredentials credentials{.access_key_id = profile["aws_access_key_id"],
                             .secret_access_key = profile["aws_secret_access_key"],
                             .session_token = profile["aws_session_token"]};
  if (!credentials.access_key_id.empty() && !credentials.secret_access_key.empty())
    return credentials;
  if (!credentials.access_key_id.empty() || !credentials.secret_access_key.empty())
    return absl::PermissionDeniedError(
        ToAbsl("AWS credentials from " + what + ": half of the key is missing"));
  if (const std::string& command = profile["credential_process"]; !command.empty())
    return FromProcess(command);
  for (const char* key : {"sso_session", "sso_start_url", "role_arn"})
    if (!profile[key].empty())
      return WithHint(absl::UnimplementedError(ToAbsl("AWS credentials from " + what +
                                                      ": rt does "
                                                      "not know " +
                                                      key)),
                      "let the AWS client fetch them: credential_process = aws configure "
                      "export-credentials --profile NAME --format process");
  return std::nullopt;
}

}  // namespace rt
