#include "head/service/tokens.h"

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/run/random.h"
#include "common/spec/item_name.h"
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
  Identity identity{.cluster_id = settings.cluster_id,
                    .kind = worker ? "node" : "user",
                    .name = worker ? std::to_string(node.value) : token.bound_name(),
                    .role = token.role};
  RT_ASSIGN_OR_RETURN(std::string certificate,
                      SignCsr(settings.ca, ask.csr_pem, identity, kCertificateFor));
  return Joined{std::move(certificate), worker ? node : NodeId{}};
}

absl::StatusOr<NewToken> IssueToken(const Settings& settings, const Token& token, Millis ttl) {
  Identity identity{
      .cluster_id = settings.cluster_id, .kind = "join", .name = token.id, .role = "join"};
  RT_ASSIGN_OR_RETURN(KeyPair own, IssueKeyPair(settings.ca, identity, ttl, {}));
  JoinToken text{.id = token.id,
                 .cluster_id = settings.cluster_id,
                 .credentials = {settings.ca.certificate_pem, std::move(own)},
                 .role = token.role,
                 .name = token.bound_name()};
  return NewToken{token.id, text.name, EncodeJoinToken(text)};
}

absl::Status CheckName(const std::string& name) {
  RT_RETURN_IF_ERROR(CheckSize("name", name.size(), limits::kNameBytesMax));
  for (char c : name) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '-' || c == '_' || c == '.' || c == '@';
    if (!plain) return Invalid("a name may contain only letters, digits and '-_.@'");
  }
  return absl::OkStatus();
}

// Of a node or a person that has none of that name yet. People have no ids: "1001" is nobody else.
absl::Status CheckNewName(const std::string& role, const std::string& name) {
  RT_RETURN_IF_ERROR(CheckName(name));
  if (role == "worker" && !name.empty()) return CheckItemName("name", name);
  if (name.starts_with('-') || name.starts_with('.'))
    return Invalid("a name must not begin with '-' or '.'");
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
    return done(Invalid("a token is valid for at most 30 days", "give a shorter --ttl"));
  if (absl::Status named = CheckNewName(request.role, request.name); !named.ok())
    return done(named);
  Millis ttl = request.ttl == 0 ? kTtlDefault : request.ttl;
  const Token token{.id = RandomHex(8), .role = request.role, .name = request.name};
  auto created = [&settings, io, token, ttl, done = std::move(done)](const absl::Status& status,
                                                                     const Answer&) {
    if (!status.ok()) return done(status);
    io([&settings, token, ttl, done] { done(IssueToken(settings, token, ttl)); });
  };
  loop.Post(
      input::CreateToken{token.id, token.role, ttl, request.pool, token.name, request.machine},
      std::move(created));
}

void RedeemToken(HeadLoop& loop, const Io& io, const Settings& settings, const JoinAsk& ask,
                 JoinDone done) {
  absl::Status checked = CheckName(ask.name);
  if (checked.ok()) checked = CheckSize("csr_pem", ask.csr_pem.size(), 16u << 10);
  if (!checked.ok()) return done(checked);
  auto token = std::make_shared<Token>();
  auto usable = std::make_shared<absl::Status>();
  auto read = [token, usable, ask](const Core& core) {
    absl::StatusOr<Token> found =
        FindTokenFor(core.world.state, {ask.token, ask.name}, core.soft.last_step_at);
    *usable = found.status();
    // A token of an earlier release may be for a name that is refused today: it keeps it.
    const bool is_new = found.ok() && found->bound_name().empty();
    if (is_new) *usable = CheckNewName(found->role, ask.name);
    if (found.ok()) *token = *std::move(found);
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
             [&loop, usable, ask, try_first, used, done](const absl::Status& status) {
    if (!status.ok()) return done(status);
    if (!usable->ok()) return done(*usable);
    try_first([&loop, ask, used] { loop.Post(input::UseToken{ask.token, ask.name}, used); });
  });
}

}  // namespace rt
