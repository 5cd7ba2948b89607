// Join tokens: single use, with an expiry. The journal knows their ids, never their secrets.
#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/core/draft.h"

namespace rt {

absl::Status OnCreateToken(Draft& draft, const input::CreateToken& input) {
  const State& state = draft.state();
  if (state.tokens.contains(input.token)) return absl::AlreadyExistsError("the token id is taken");
  std::vector<std::string> expired;
  for (const auto& [id, token] : state.tokens)
    if (token.expires_at <= draft.now) expired.push_back(id);
  if (state.tokens.size() - expired.size() >= limits::kTokensMax)
    return absl::ResourceExhaustedError("too many unused tokens: revoke some");
  for (const std::string& id : expired) draft.Emit(event::TokenRevoked{id});
  draft.Emit(event::TokenCreated{input.token, input.role, draft.now + input.ttl, input.pool});
  return absl::OkStatus();
}

absl::Status OnRevokeToken(Draft& draft, const input::RevokeToken& input) {
  if (!draft.state().tokens.contains(input.token)) return NotFound("no such token");
  draft.Emit(event::TokenRevoked{input.token});
  return absl::OkStatus();
}

absl::Status OnUseToken(Draft& draft, const input::UseToken& input) {
  const State& state = draft.state();
  auto token = state.tokens.find(input.token);
  if (token == state.tokens.end() || token->second.expires_at <= draft.now)
    return absl::PermissionDeniedError("the join token is unknown, used or expired");
  bool worker = token->second.role == "worker";
  std::string pool = token->second.pool;
  draft.Emit(event::TokenUsed{input.token});
  if (!worker) return absl::OkStatus();
  NodeId id{state.next_node};
  std::string name = input.name.empty() ? "node-" + std::to_string(id.value) : input.name;
  for (const auto& [other, node] : state.nodes) {
    if (node.name != name || node.gone) continue;
    name += "-" + std::to_string(id.value);
    break;
  }
  draft.Emit(event::NodeJoined{id, name, pool});
  draft.out.answer.node = id;
  return absl::OkStatus();
}

}  // namespace rt
