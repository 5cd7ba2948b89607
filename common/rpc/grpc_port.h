// The port of a gRPC server: a PortListener that accepts its connections, a CallWatch that reports
// to it, and the bounds of the server itself. Listen, AddTo the builder, Start after
// BuildAndStart; Stop before the server's Shutdown. Outlives the server.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "common/rpc/call_watch.h"
#include "common/rpc/port_listener.h"

namespace rt {

class GrpcPort {
 public:
  static absl::StatusOr<std::unique_ptr<GrpcPort>> Listen(PortListenerOptions options);
  ~GrpcPort() { Stop(); }
  void AddTo(grpc::ServerBuilder& builder, const Credentials& credentials);
  void Start();
  void Stop() { listener_->Stop(); }
  int port() const { return listener_->port(); }
  PortCounters counters() const { return listener_->counters(); }
  std::string fault() const { return listener_->fault(); }

 private:
  explicit GrpcPort(std::unique_ptr<PortListener> listener)
      : listener_(std::move(listener)), watch_(*listener_) {}

  std::unique_ptr<PortListener> listener_;
  CallWatch watch_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
};

}  // namespace rt
