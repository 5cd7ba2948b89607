// The files and the text in which credentials travel; certificates.cc makes what is inside them.
#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/identity.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr std::string_view kTokenPrefix = "rtj1.";
constexpr size_t kTokenBytesMax = 64u << 10;
constexpr Bytes kPemBytesMax = 256 << 10;

}  // namespace

absl::Status WriteCredentials(const std::string& directory, const Credentials& credentials) {
  RT_RETURN_IF_ERROR(EnsureDirectory(directory));
  RT_RETURN_IF_ERROR(WriteFileAtomic(directory + "/ca.pem", credentials.ca_pem));
  RT_RETURN_IF_ERROR(WriteFileAtomic(directory + "/key.pem", credentials.own.key_pem));
  return WriteFileAtomic(directory + "/cert.pem", credentials.own.certificate_pem);
}

absl::StatusOr<Credentials> ReadCredentials(const std::string& directory) {
  Credentials credentials;
  RT_ASSIGN_OR_RETURN(credentials.ca_pem, ReadFile(directory + "/ca.pem", kPemBytesMax));
  RT_ASSIGN_OR_RETURN(credentials.own.certificate_pem,
                      ReadFile(directory + "/cert.pem", kPemBytesMax));
  RT_ASSIGN_OR_RETURN(credentials.own.key_pem, ReadFile(directory + "/key.pem", kPemBytesMax));
  return credentials;
}

std::string EncodeJoinToken(const JoinToken& token) {
  Json json = Json::MakeObject({{"id", token.id},
                                {"cluster", token.cluster_id},
                                {"ca", token.credentials.ca_pem},
                                {"cert", token.credentials.own.certificate_pem},
                                {"key", token.credentials.own.key_pem},
                                {"role", token.role},
                                {"name", token.name}});
  return std::string(kTokenPrefix) + Base64Encode(json.Dump());
}

absl::StatusOr<JoinToken> DecodeJoinToken(const std::string& text) {
  // The text is a secret: no message repeats a part of it.
  constexpr std::string_view kHint = "make one with `rt token create`, and copy all of it";
  std::string_view encoded = Trim(text);
  if (!encoded.starts_with(kTokenPrefix) || encoded.size() > kTokenBytesMax)
    return Invalid("this is not a join token; a join token begins with rtj1.", kHint);
  auto decoded = Base64Decode(encoded.substr(kTokenPrefix.size()));
  if (!decoded.has_value()) return Invalid("the join token is damaged", kHint);
  auto json = Json::Parse(*decoded);
  if (!json.ok() || !json->is_object()) return Invalid("the join token is damaged", kHint);
  JoinToken token{.id = json->GetString("id"),
                  .cluster_id = json->GetString("cluster"),
                  .credentials = {.ca_pem = json->GetString("ca"),
                                  .own = {.certificate_pem = json->GetString("cert"),
                                          .key_pem = json->GetString("key")}},
                  .role = json->GetString("role"),
                  .name = json->GetString("name")};
  if (token.id.empty() || token.cluster_id.empty() || token.credentials.ca_pem.empty() ||
      token.credentials.own.certificate_pem.empty() || token.credentials.own.key_pem.empty())
    return Invalid("the join token is incomplete", kHint);
  return token;
}

}  // namespace rt
