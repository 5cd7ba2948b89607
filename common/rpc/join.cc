#include "common/rpc/join.h"

#include <chrono>
#include <thread>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "common/rpc/connection.h"
#include "common/run/clock.h"
#include "rt/v1/cluster.grpc.pb.h"

namespace rt {
namespace {

constexpr Millis kConnectMax = 3'000;
constexpr auto kAnswerMax = std::chrono::seconds(15);
constexpr Millis kPause = 200;
// A head that ends closes its connections once; one that refuses a certificate closes every one.
constexpr int kRefusalsMin = 3;

std::string HowToGetAnother(const JoinToken& token) {
  const std::string role = token.role.empty() ? "ROLE" : token.role;
  return "ask an admin for another: rt token create --role " + role;
}

absl::Status CheckKind(const JoinToken& token, const std::string& kind) {
  const std::string kind_of_token = token.role == "worker" ? "node" : "user";
  if (token.role.empty() || kind == kind_of_token) return absl::OkStatus();
  return absl::PermissionDeniedError(kind == "user"
                                         ? "this token is for a worker: use it with rt-worker"
                                         : "this token is for a person: use it with rt context "
                                           "add; a worker needs rt token create --role worker");
}

bool Says(const absl::Status& status, std::string_view text) {
  return MessageOf(status).find(text) != std::string::npos;
}

// gRPC's servers send no alert when they refuse a certificate: they close the connection after the
// handshake, which has succeeded on our side.
bool IsRefusal(const absl::Status& status) {
  return absl::IsUnavailable(status) && Says(status, "Socket closed");
}

absl::Status RefusedByHead(const JoinToken& token, const std::string& head) {
  const auto left = CertificateSecondsLeft(token.credentials.own.certificate_pem);
  return WithHint(
      absl::UnauthenticatedError(ToAbsl(
          "the head at " + head + " refuses the token: by the head's clock it has expired, or is "
          "not valid yet; by this machine's clock it is valid for another " +
          std::to_string(static_cast<int64_t>(left.ok() ? *left : 0)) + " s")),
      "compare the clocks of both machines; " + HowToGetAnother(token));
}

absl::StatusOr<v1::JoinReply> Ask(const std::shared_ptr<grpc::Channel>& channel,
                                  const v1::JoinRequest& request) {
  RT_RETURN_IF_ERROR(AwaitConnection(*channel, SteadyClock() + kConnectMax));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerMax);
  v1::JoinReply reply;
  grpc::Status status = v1::ClusterService::NewStub(channel)->Join(&context, request, &reply);
  if (!status.ok()) return FromGrpc(status);
  return reply;
}

// Until the head answers, or waiting longer is of no use.
absl::StatusOr<v1::JoinReply> AskPatiently(const JoinAsk& ask, const JoinToken& token,
                                           const v1::JoinRequest& request) {
  auto channel = MakeChannel(ask.head, token.credentials, token.cluster_id, false);
  const Millis until = SteadyClock() + ask.away_max;
  for (int refusals = 0;;) {
    if (absl::Status usable = CheckOwnCertificate(token.credentials); !usable.ok())
      return WithHint(Annotate(usable, "the join token"), HowToGetAnother(token));
    absl::StatusOr<v1::JoinReply> reply = Ask(channel, request);
    if (!absl::IsUnavailable(reply.status())) return reply;
    if (Says(reply.status(), "certificate verify failed"))
      return WithHint(absl::UnauthenticatedError(
                          ToAbsl(ask.head + " is not the head of the token's cluster")),
                      "check the address, and that the clocks of both machines agree; the token "
                      "can still be used");
    refusals = IsRefusal(reply.status()) ? refusals + 1 : 0;
    if (refusals >= kRefusalsMin) return RefusedByHead(token, ask.head);
    if (refusals == 0 && SteadyClock() >= until) return reply;
    std::this_thread::sleep_for(std::chrono::milliseconds(kPause));
  }
}

}  // namespace

absl::StatusOr<Joined> JoinCluster(const JoinAsk& ask) {
  RT_ASSIGN_OR_RETURN(JoinToken token, DecodeJoinToken(ask.token));
  RT_RETURN_IF_ERROR(CheckKind(token, ask.kind));
  RT_ASSIGN_OR_RETURN(std::string key, CreateKey());
  v1::JoinRequest request;
  RT_ASSIGN_OR_RETURN(*request.mutable_csr_pem(), CreateCsr(key));
  const std::string& unasked = token.name.empty() ? ask.default_name : token.name;
  request.set_name(ask.name.empty() ? unasked : ask.name);
  RT_ASSIGN_OR_RETURN(v1::JoinReply reply, AskPatiently(ask, token, request));
  Joined joined{.credentials = {reply.ca_pem(), {reply.certificate_pem(), key}}};
  RT_ASSIGN_OR_RETURN(joined.identity, IdentityOf(reply.certificate_pem()));
  if (joined.identity.kind != ask.kind)  // A token of an older head does not say what it is for.
    return absl::PermissionDeniedError(ToAbsl("this token was for a " + joined.identity.kind +
                                              "; it is used up now"));
  return joined;
}

}  // namespace rt
