#include "cli/join.h"

#include <chrono>

#include "cli/connection.h"
#include "cli/local_cluster.h"
#include "cli/render/unreachable.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "common/run/clock.h"
#include "rt/v1/cluster.grpc.pb.h"

namespace rt {
namespace {

constexpr Millis kConnectMax = 3'000;
constexpr auto kAnswerMax = std::chrono::seconds(15);
constexpr char kAnother[] = "ask an admin for another: rt token create --role user";

// A head that closes a connection that stood does so because of the certificate: by its clock, the
// token has expired.
absl::Status Refused(const absl::Status& status, const std::string& address) {
  if (!absl::IsUnavailable(status)) return Annotate(status, "the head at " + address);
  const std::string reason = TransportReason(MessageOf(status));
  if (reason == TransportReason("Socket closed"))
    return WithHint(absl::UnauthenticatedError(ToAbsl("the head at " + address +
                                                      " refused the token: it has expired")),
                    kAnother);
  return WithHint(absl::UnavailableError(
                      ToAbsl("the head at " + address + " cannot be reached: " + reason)),
                  "check that rt-head runs there and that its port is open; the token can still "
                  "be used");
}

}  // namespace

absl::StatusOr<Context> RedeemToken(const std::string& text, const std::string& address,
                                    const std::string& name) {
  RT_ASSIGN_OR_RETURN(JoinToken token, DecodeJoinToken(std::string(Trim(text))));
  if (absl::Status usable = CheckOwnCertificate(token.credentials); !usable.ok())
    return WithHint(Annotate(usable, "the token"), kAnother);
  RT_ASSIGN_OR_RETURN(std::string key, CreateKey());
  v1::JoinRequest request;
  RT_ASSIGN_OR_RETURN(*request.mutable_csr_pem(), CreateCsr(key));
  auto channel = MakeChannel(address, token.credentials, token.cluster_id, false);
  if (absl::Status connected = AwaitConnection(*channel, SteadyClock() + kConnectMax);
      !connected.ok())
    return Refused(connected, address);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerMax);
  v1::JoinReply reply;
  grpc::Status status = v1::ClusterService::NewStub(channel)->Join(&context, request, &reply);
  if (!status.ok()) return Refused(FromGrpc(status), address);
  RT_ASSIGN_OR_RETURN(Identity identity, IdentityOf(reply.certificate_pem()));
  if (identity.kind != "user")
    return absl::PermissionDeniedError("this token is for a worker; it is used up now");
  return Context{.name = name,
                 .cluster_id = reply.cluster_id(),
                 .address = address,
                 .credentials = {reply.ca_pem(), {reply.certificate_pem(), key}}};
}

}  // namespace rt
