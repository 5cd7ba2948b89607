// Sees every call of a server begin and end. The port listener learns from it which connections
// have shown who they are. It cuts off clients that only make work: streams that are reset by the
// thousand (CVE-2023-44487), more calls at once than the server allowed, more connections of one
// identity than its share. An identity that is cut off is blocked for a while.
//
// A call is seen twice. The intake sees it as soon as its headers are parsed, knows its identity
// but not its connection, and refuses it before it costs much. The interceptor sees it when its
// handler is about to run, which may be long after when thousands are queued. Both run in gRPC's
// threads.
#pragma once

#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/support/server_interceptor.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/rpc/identity.h"
#include "common/rpc/port_listener.h"

namespace rt {

class CallWatch {
 public:
  // Both outlive the server.
  explicit CallWatch(PortListener& listener);
  // For the server's credentials and builder.
  std::shared_ptr<grpc::AuthMetadataProcessor> MakeIntake();
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeFactory();

 private:
  class Call;
  class Factory;
  class Intake;
  struct Client;
  struct Session;

  using ClientPtr = std::shared_ptr<Client>;

  ClientPtr ClientOf(const grpc::AuthContext* context);
  void Forget(const ClientPtr& except);
  bool MayBeRefused(Client& client);
  grpc::Status Take(Client& client);
  std::shared_ptr<Session> SessionOf(PeerConnection& connection, const ClientPtr& client);
  void Admit(Session& session);
  size_t BodiesOf(PeerConnection& connection);
  void NoteReset(Client& client);
  void Block(Client& client, const std::string& why);

  PortListener& listener_;
  std::mutex mutex_;
  std::map<std::string, ClientPtr, std::less<>> by_certificate_;  // PEM text.
  std::map<std::string, ClientPtr> by_name_;
};

}  // namespace rt
