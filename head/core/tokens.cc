// Join tokens: single use, with an expiry, a role and a name. The journal knows their ids, never
// their secrets.
#include <algorithm>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/core/core.h"
#include "head/core/draft.h"
#include "head/core/pools.h"

namespace rt {
namespace {

// Whoever creates a token decides who joins with it.
absl::Status CheckBound(const Token& token, const std::string& asked) {
  const std::string bound = token.bound_name();
  if (bound.empty() || asked.empty() || asked == bound) return absl::OkStatus();
  const std::string kind = token.role == "worker" ? "node" : "user";
  return WithHint(
      absl::PermissionDeniedError("this token is for the " + kind + " '" + bound +
                                  "': nobody joins as '" + asked + "' with it"),
      "join as '" + bound + "', or ask an admin for another: rt token create --role " +
          token.role + " --name " + asked);
}

// `except`: a node that leaves the cluster.
bool IsTaken(const State& state, const std::string& node_name, NodeId except) {
  return std::any_of(state.nodes.begin(), state.nodes.end(), [&](const auto& one) {
    return one.second.name == node_name && !one.second.gone && one.first != except;
  });
}

// The node of a machine that joined before and could not keep its certificate; 0: there is none.
NodeId NodeBefore(const State& state, uint64_t machine) {
  if (machine == 0) return {};
  const auto node = state.nodes.find(state.machines.at(machine).node);
  return node == state.nodes.end() || node->second.gone ? NodeId{} : node->first;
}

}  // namespace

absl::StatusOr<Token> FindTokenFor(const State& state, const input::UseToken& use, Millis now) {
  const auto token = state.tokens.find(use.token);
  if (token != state.tokens.end() && token->second.expires_at > now) {
    RT_RETURN_IF_ERROR(CheckBound(token->second, use.name));
    return token->second;
  }
  const bool is_known = token != state.tokens.end();
  return WithHint(
      absl::PermissionDeniedError(is_known ? "this token has expired"
                                           : "this token was used, revoked, or has expired"),
      "ask an admin for another: rt token create --role " +
          (is_known ? token->second.role : "ROLE"));
}

absl::Status OnCreateToken(Draft& draft, const input::CreateToken& input) {
  const State& state = draft.state();
  if (state.tokens.contains(input.token)) return absl::AlreadyExistsError("the token id is taken");
  std::vector<std::string> expired;
  for (const auto& [id, token] : state.tokens)
    if (token.expires_at <= draft.now) expired.push_back(id);
  if (state.tokens.size() - expired.size() >= limits::kTokensMax)
    return absl::ResourceExhaustedError("too many unused tokens: revoke some");
  if (input.machine != 0) RT_RETURN_IF_ERROR(CheckMayJoin(state, input.machine));
  for (const std::string& id : expired) draft.Emit(event::TokenRevoked{id});
  Token made{.id = input.token, .role = input.role, .name = input.name};
  const std::string pool = input.machine == 0 ? input.pool : state.machines.at(input.machine).pool;
  draft.Emit(event::TokenCreated{input.token, input.role, draft.now + input.ttl, pool,
                                 made.bound_name(), input.machine});
  return absl::OkStatus();
}

absl::Status OnRevokeToken(Draft& draft, const input::RevokeToken& input) {
  if (!draft.state().tokens.contains(input.token))
    return NotFound("no token matches '" + input.token + "'", "rt token list shows their ids");
  draft.Emit(event::TokenRevoked{input.token});
  return absl::OkStatus();
}

absl::Status OnUseToken(Draft& draft, const input::UseToken& input) {
  const State& state = draft.state();
  RT_ASSIGN_OR_RETURN(const Token token, FindTokenFor(state, input, draft.now));
  const bool is_worker = token.role == "worker";
  if (token.machine != 0) RT_RETURN_IF_ERROR(CheckMayJoin(state, token.machine));
  const NodeId before = NodeBefore(state, token.machine);
  if (is_worker && !token.name.empty() && IsTaken(state, token.name, before)) {
    return WithHint(absl::FailedPreconditionError("this token is for the node '" + token.name +
                                                  "', and the cluster has a node of that name"),
                    "once that node is LOST: rt node forget " + token.name +
                        "; the token can still be used");
  }
  draft.Emit(event::TokenUsed{input.token});
  if (!is_worker) return absl::OkStatus();
  if (before.value != 0)
    RT_RETURN_IF_ERROR(OnRemoveNode(draft, {before, "its machine joined again"}));
  NodeId id{state.next_node};
  std::string name = token.name.empty() ? input.name : token.name;
  if (name.empty()) name = "node-" + std::to_string(id.value);
  if (IsTaken(state, name, {})) name += "-" + std::to_string(id.value);
  draft.Emit(event::NodeJoined{id, name, token.pool, token.machine});
  draft.out.answer.node = id;
  return absl::OkStatus();
}

}  // namespace rt
