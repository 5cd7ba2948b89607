#include "common/rpc/grpc_port.h"

#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/channel.h"

namespace rt {

absl::StatusOr<std::unique_ptr<GrpcPort>> GrpcPort::Listen(PortListenerOptions options) {
  options.user_timeout = kServerUserTimeout;
  RT_ASSIGN_OR_RETURN(std::unique_ptr<PortListener> listener, PortListener::Listen(options));
  return std::unique_ptr<GrpcPort>(new GrpcPort(std::move(listener)));
}

void GrpcPort::AddTo(grpc::ServerBuilder& builder, const Credentials& credentials) {
  using Kind = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  ConfigureServer(builder);
  std::shared_ptr<grpc::ServerCredentials> tls = MakeServerCredentials(credentials);
  tls->SetAuthMetadataProcessor(watch_.MakeIntake());
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(Kind::FROM_FD, std::move(tls));
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
  factories.push_back(watch_.MakeFactory());
  builder.experimental().SetInterceptorCreators(std::move(factories));
}

void GrpcPort::Start() {
  listener_->Start([this](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    acceptor_->HandleNewConnection(&connection);
  });
}

}  // namespace rt
