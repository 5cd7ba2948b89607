#include "cli/join.h"

#include <chrono>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "rt/v1/cluster.grpc.pb.h"

namespace rt {
namespace {
constexpr auto kAnswerMax = std::chrono::seconds(15);
}  // namespace

absl::StatusOr<Context> RedeemToken(const std::string& text, const std::string& address,
                                    const std::string& name) {
  RT_ASSIGN_OR_RETURN(JoinToken token, DecodeJoinToken(std::string(Trim(text))));
  RT_RETURN_IF_ERROR(Annotate(CheckOwnCertificate(token.credentials), "the token"));
  RT_ASSIGN_OR_RETURN(std::string key, CreateKey());
  v1::JoinRequest request;
  RT_ASSIGN_OR_RETURN(*request.mutable_csr_pem(), CreateCsr(key));
  auto channel = MakeChannel(address, token.credentials, token.cluster_id, false);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerMax);
  v1::JoinReply reply;
  grpc::Status status = v1::ClusterService::NewStub(channel)->Join(&context, request, &reply);
  if (!status.ok()) return Annotate(FromGrpc(status), "the head at " + address);
  RT_ASSIGN_OR_RETURN(Identity identity, IdentityOf(reply.certificate_pem()));
  if (identity.kind != "user")
    return absl::PermissionDeniedError("this token is for a worker; it is used up now");
  return Context{.name = name,
                 .cluster_id = reply.cluster_id(),
                 .address = address,
                 .credentials = {reply.ca_pem(), {reply.certificate_pem(), key}}};
}

}  // namespace rt
