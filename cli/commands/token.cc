// `rt token create`, `rt token list`, `rt token revoke`.
#include <cstdio>

#include "cli/commands/acting.h"
#include "cli/render/table.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

// The token as `token list` has it; the head decides when it expires.
absl::StatusOr<Json> TokenOf(HeadClient& client, const std::string& id) {
  RT_ASSIGN_OR_RETURN(Json reply, client.Ask<v1::ClusterService>(
                                      &v1::ClusterService::Stub::ListTokens, v1::Empty()));
  if (const Json* items = reply.Find("items"); items != nullptr && items->is_array())
    for (const Json& item : items->array())
      if (item.GetString("id") == id) return item;
  return Json::MakeObject();  // Used or revoked in between.
}

}  // namespace

ExitCode RunTokenCreate(const Invocation& invocation) {
  std::optional<double> seconds = ParseDurationSeconds(invocation.ttl);
  if (!seconds.has_value() || *seconds <= 0)
    return Invalid("--ttl: '" + invocation.ttl + "' is not a duration", "--ttl 90m");
  const std::vector<std::string> roles = {"worker", "user", "viewer", "admin"};
  if (std::find(roles.begin(), roles.end(), invocation.role) == roles.end()) {
    const std::string near = DidYouMean(invocation.role, roles);
    return Invalid("--role: unknown role '" + invocation.role + "'",
                   near.empty() ? "one of " + Join(roles, ", ") : near);
  }
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  v1::CreateTokenRequest request;
  request.set_role(invocation.role);
  request.set_ttl_ms(static_cast<int64_t>(*seconds * 1000));
  request.set_name(invocation.name);
  RT_ASSIGN_OR_RETURN(auto reply, client->Call<v1::ClusterService>(
                                      &v1::ClusterService::Stub::CreateToken, request));
  if (!invocation.name.empty() && reply.name() != invocation.name) {
    return WithHint(absl::FailedPreconditionError(
                        "the head is older than this rt and binds no name to a token"),
                    "upgrade rt-head; end the token with: rt token revoke " + reply.id());
  }
  if (invocation.output == Output::kJson) {
    RT_ASSIGN_OR_RETURN(Json token, TokenOf(*client, reply.id()));
    PrintJson(Json::MakeObject({{"id", reply.id()},
                                {"role", token["role"]},
                                {"name", token["name"]},
                                {"expires_at", token["expires_at"]},
                                {"text", reply.token()}}));
  } else {
    std::puts(invocation.output == Output::kQuiet ? reply.id().c_str() : reply.token().c_str());
  }
  return kExitOk;
}

ExitCode RunTokenList(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(Json reply, client->Ask<v1::ClusterService>(
                                      &v1::ClusterService::Stub::ListTokens, v1::Empty()));
  if (invocation.output == Output::kJson) {
    PrintJson(reply);
    return kExitOk;
  }
  Table table({"ID", "ROLE", "NAME", "EXPIRES"});
  const Json* items = reply.Find("items");
  for (const Json& item : items == nullptr ? Json::Array() : items->array()) {
    if (invocation.output == Output::kQuiet) std::puts(item.GetString("id").c_str());
    table.Add({item.GetString("id"), item.GetString("role"), item.GetString("name"),
               item.GetString("expires_at")});
  }
  if (invocation.output == Output::kTable) std::fputs(table.Render().c_str(), stdout);
  return kExitOk;
}

ExitCode RunTokenRevoke(const Invocation& invocation) {
  if (invocation.words.empty()) return Invalid("name a token", "rt token list shows their ids");
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  v1::RevokeTokenRequest request;
  request.set_id(FirstWord(invocation));
  RT_RETURN_IF_ERROR(
      (client->Call<v1::ClusterService>(&v1::ClusterService::Stub::RevokeToken, request))
          .status());
  PrintActed(invocation, "revoke", {ActedItem(request.id(), "token", "REVOKED")});
  return kExitOk;
}

}  // namespace rt
