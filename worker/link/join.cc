#include "worker/link/join.h"

#include <chrono>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "common/run/files.h"
#include "rt/v1/cluster.grpc.pb.h"

namespace rt::worker {

absl::StatusOr<Credentials> ReadOrJoin(const JoinOptions& options) {
  if (Exists(options.directory + "/cert.pem")) return ReadCredentials(options.directory);
  if (options.token_file.empty()) {
    return Invalid("this node has not joined yet: --token-file is needed",
                   "make one with: rt token create --role worker");
  }
  RT_ASSIGN_OR_RETURN(std::string text, ReadFile(options.token_file, 1 << 20));
  RT_ASSIGN_OR_RETURN(JoinToken token, DecodeJoinToken(std::string(Trim(text))));
  RT_RETURN_IF_ERROR(Annotate(CheckOwnCertificate(token.credentials), "the join token"));
  RT_ASSIGN_OR_RETURN(std::string key, CreateKey());
  RT_ASSIGN_OR_RETURN(std::string csr, CreateCsr(key));
  auto channel = MakeChannel(options.head, token.credentials, token.cluster_id, false);
  auto stub = v1::ClusterService::NewStub(channel);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::JoinRequest request;
  request.set_csr_pem(csr);
  request.set_name(options.name);
  v1::JoinReply reply;
  grpc::Status status = stub->Join(&context, request, &reply);
  if (!status.ok()) return Annotate(FromGrpc(status), "join " + options.head);
  Credentials credentials{reply.ca_pem(), {reply.certificate_pem(), key}};
  RT_RETURN_IF_ERROR(EnsureDirectory(options.directory));
  RT_RETURN_IF_ERROR(WriteCredentials(options.directory, credentials));
  return credentials;
}

}  // namespace rt::worker
