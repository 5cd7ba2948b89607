#include "head/service/tokens.h"

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/run/random.h"
#include "head/service/translate.h"

namespace rt {
namespace {

constexpr Millis kDay = 86'400'000;
constexpr Millis kTtlDefault = kDay / 24;
constexpr Millis kTtlMax = 30 * kDay;
// There is no renewal yet: a node that is still there after a year joins again.
constexpr Millis kCertificateFor = 365 * kDay;

absl::StatusOr<Joined> Sign(const Settings& settings, const JoinAsk& ask, const Token& token,
                            NodeId node) {
  const bool worker = token.role == "worker";
  const std::string person = ask.name.empty() ? "user-" + ask.token : ask.name;
  Identity identity{.cluster_id = settings.cluster_id,
                    .kind = worker ? "node" : "user",
                    .name = worker ? std::to_string(node.value) : person,
                    .role = token.role};
  RT_ASSIGN_OR_RETURN(std::string certificate,
                      SignCsr(settings.ca, ask.csr_pem, identity, kCertificateFor));
  return Joined{std::move(certificate), worker ? node : NodeId{}};
}

absl::StatusOr<NewToken> IssueToken(const Settings& settings, const std::string& id, Millis ttl) {
  Identity identity{.cluster_id = settings.cluster_id, .kind = "join", .name = id, .role = "join"};
  RT_ASSIGN_OR_RETURN(KeyPair own, IssueKeyPair(settings.ca, identity, ttl, {}));
  Credentials credentials{.ca_pem = settings.ca.certificate_pem, .own = std::move(own)};
  return NewToken{id, EncodeJoinToken({id, settings.cluster_id, std::move(credentials)})};
}

absl::Status CheckName(const std::string& name) {
  RT_RETURN_IF_ERROR(CheckSize("name", name.size(), limits::kNameBytesMax));
  for (char c : name) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '-' || c == '_' || c == '.' || c == '@';
    if (!plain) return Invalid("a name is made of letters, digits and '-_.@'");
  }
  return absl::OkStatus();
}

}  // namespace

void CreateToken(HeadLoop& loop, const Io& io, const Settings& settings,
                 const TokenRequest& request, TokenDone done) {
  bool known = request.role == "worker" || request.role == "user" || request.role == "viewer" ||
               request.role == "admin";
  if (!known)
    return done(
        Invalid("there is no role '" + request.role + "'", "worker, user, viewer or admin"));
  if (auto size = CheckSize("pool", request.pool.size(), limits::kNameBytesMax); !size.ok())
    return done(size);
  if (request.ttl < 0 || request.ttl > kTtlMax)
    return done(Invalid("a token lives for at most 30 days"));
  Millis ttl = request.ttl == 0 ? kTtlDefault : request.ttl;
  std::string id = RandomHex(8);
  auto created = [&settings, io, id, ttl, done = std::move(done)](const absl::Status& status,
                                                                  const Answer&) {
    if (!status.ok()) return done(status);
    io([&settings, id, ttl, done] { done(IssueToken(settings, id, ttl)); });
  };
  loop.Post(input::CreateToken{id, request.role, ttl, request.pool}, std::move(created));
}

void RedeemToken(HeadLoop& loop, const Io& io, const Settings& settings, const JoinAsk& ask,
                 JoinDone done) {
  absl::Status checked = CheckName(ask.name);
  if (checked.ok()) checked = CheckSize("csr_pem", ask.csr_pem.size(), 16u << 10);
  if (!checked.ok()) return done(checked);
  auto token = std::make_shared<Token>();
  auto read = [token, id = ask.token](const Core& core) {
    auto found = core.world.state.tokens.find(id);
    if (found != core.world.state.tokens.end()) *token = found->second;
  };
  // The whole request is tried before the token is spent: what cannot be signed costs nothing.
  auto try_first = [&settings, io, token, ask, done](std::function<void()> then) {
    io([&settings, token, ask, done, then] {
      absl::Status signable = Sign(settings, ask, *token, NodeId{1}).status();
      if (!signable.ok()) return done(signable);
      then();
    });
  };
  auto used = [&settings, io, token, ask, done](const absl::Status& status, const Answer& answer) {
    if (!status.ok()) return done(status);
    io([&settings, ask, token, node = answer.node, done] {
      done(Sign(settings, ask, *token, node));
    });
  };
  loop.Query(std::move(read),
             [&loop, token, ask, try_first, used, done](const absl::Status& status) {
    if (!status.ok()) return done(status);
    if (token->role.empty())
      return done(absl::PermissionDeniedError("this token was used, revoked, or has expired"));
    try_first([&loop, ask, used] { loop.Post(input::UseToken{ask.token, ask.name}, used); });
  });
}

}  // namespace rt
