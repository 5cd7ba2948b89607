// The gRPC services (callback API): they admit the caller, translate and post; nothing more. The
// generated headers stay in the .cc files.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "common/base/limits.h"
#include "common/base/strings.h"
#include "common/cas/blob_store.h"
#include "common/rpc/channel.h"
#include "head/service/auth.h"
#include "head/service/log_hub.h"
#include "head/service/operations.h"
#include "head/service/peer_book.h"

namespace rt {

// What every service works with; owned by HeadServer, outlives the services.
struct Edge {
  HeadLoop& loop;
  BlobStore& blobs;
  Io io;
  const Settings& settings;
  Operations& operations;
  Waits& waits;
  LogHub& logs;
  std::function<void()> end_head;  // Asks main to stop the local workers and to end.
  KnownPeers& peers;
  PeerBook& book;
};

std::unique_ptr<grpc::Service> MakeBootService(Edge& edge);
std::unique_ptr<grpc::Service> MakeClusterService(Edge& edge);
std::unique_ptr<grpc::Service> MakeExperimentService(Edge& edge);
std::unique_ptr<grpc::Service> MakeJobService(Edge& edge);
std::unique_ptr<grpc::Service> MakeWorkerService(Edge& edge);
std::unique_ptr<grpc::Service> MakeBlobService(Edge& edge);
// With the head's own credentials, by which daemons know it.
std::unique_ptr<grpc::Service> MakeExecutorService(Edge& edge, const Credentials& credentials);

// The caller's identity, if the table of auth.h lets it call `method`. A node must be a member.
// People and drivers are told this head's epoch, and say the newest that they were told:
// Unavailable from an older head.
absl::StatusOr<Identity> Admit(const Edge& edge, grpc::CallbackServerContext& context,
                               std::string_view method);

// Finishes a unary call with the JSON, or with the error.
template <class Reply>
JsonDone AnswerJsonTo(grpc::ServerUnaryReactor* reactor, Reply* reply) {
  return [reactor, reply](absl::StatusOr<Json> json) {
    if (json.ok()) reply->set_json(json->Dump());
    reactor->Finish(ToGrpc(json.status()));
  };
}
// Finishes a unary call whose reply is empty.
inline JsonDone AnswerTo(grpc::ServerUnaryReactor* reactor) {
  return [reactor](const absl::StatusOr<Json>& json) { reactor->Finish(ToGrpc(json.status())); };
}
// The reason in a request, cut between two characters: half of one would make every reply that
// shows it impossible to encode.
template <class Request>
std::string ReasonIn(const Request& request) {
  return ValidUtf8(request.reason(), limits::kReasonBytesMax);
}
// What is noted where nobody gave a reason: "stopped by alice".
inline std::string ReasonOr(const std::string& given, const char* did, const Identity& who) {
  if (given.empty()) return std::string(did) + who.name;
  return given;
}
// A unary call: admitted, it runs `start` with (identity, reactor); refused, it ends at once.
template <class Start>
grpc::ServerUnaryReactor* Unary(const Edge& edge, grpc::CallbackServerContext* context,
                                std::string_view method, Start start) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<Identity> who = Admit(edge, *context, method);
  if (!who.ok()) reactor->Finish(ToGrpc(who.status()));
  else start(*who, reactor);
  return reactor;
}

// A page of a list.
template <class Request, class Reply>
grpc::ServerUnaryReactor* AnswerPage(const Edge& edge, grpc::CallbackServerContext* context,
                                     std::string_view method, const Request* request, Reply* reply,
                                     Operations::PageView view) {
  return Unary(edge, context, method, [&](auto&, grpc::ServerUnaryReactor* reactor) {
    edge.operations.AskPage({request->from(), request->limit()}, view,
                            AnswerJsonTo(reactor, reply));
  });
}

}  // namespace rt
