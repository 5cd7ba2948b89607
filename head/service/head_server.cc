#include "head/service/head_server.h"

#include <grpcpp/impl/codegen/service_type.h>

#include <charconv>

#include "common/base/status.h"
#include "common/rpc/grpc_port.h"
#include "common/run/failpoint.h"
#include "head/service/services.h"

namespace rt {
namespace {

class GrpcHeadServer final : public HeadServer {
 public:
  GrpcHeadServer(const Parts& parts, std::function<void()> end_head)
      : waits_(parts.loop, parts.settings),
        session_waits_(parts.loop, parts.settings, kSessionProbeInterval),
        operations_(parts.loop, parts.journal, parts.io, parts.settings, waits_, session_waits_),
        edge_{parts.loop, parts.blobs,         parts.io, parts.settings, operations_, waits_,
              logs_,      std::move(end_head), peers_,   book_},
        alive_(std::make_shared<Alive>()) {
    services_.push_back(MakeBootService(edge_));
    services_.push_back(MakeClusterService(edge_));
    services_.push_back(MakeExperimentService(edge_));
    services_.push_back(MakeJobService(edge_));
    services_.push_back(MakeWorkerService(edge_));
    services_.push_back(MakeBlobService(edge_));
    alive_->waits = {&waits_, &session_waits_};
    parts.loop.OnDurable([alive = alive_](uint64_t) {
      std::lock_guard lock(alive->mutex);
      for (Waits* waits : alive->waits) waits->Changed();
    });
  }
  ~GrpcHeadServer() override {
    Stop(0);
    std::lock_guard lock(alive_->mutex);
    alive_->waits.clear();
  }

  absl::Status Listen(const Credentials& credentials, const std::string& listen) {
    absl::StatusOr<std::unique_ptr<GrpcPort>> bound = GrpcPort::Listen(
        {.address = listen, .before_accept = [] { ReachFailpoint("head.port.before_accept"); }});
    if (!bound.ok()) return Annotate(bound.status(), "cannot listen at " + listen);
    port_ = std::move(*bound);
    services_.push_back(MakeExecutorService(edge_, credentials));
    grpc::ServerBuilder builder;
    port_->AddTo(builder, credentials);
    for (auto& service : services_) builder.RegisterService(service.get());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::InternalError("the gRPC server did not start");
    port_->Start();
    return absl::OkStatus();
  }

  int port() const override { return port_->port(); }
  PortCounters port_counters() const override { return port_->counters(); }
  std::string port_fault() const override { return port_->fault(); }
  Waits& waits() override { return waits_; }
  LogHub& logs() override { return logs_; }
  void Stop(Millis grace) override {
    if (server_ == nullptr) return;
    waits_.Close();
    session_waits_.Close();
    port_->Stop();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(grace));
    server_.reset();
  }

 private:
  struct Alive {  // The loop keeps its callback longer than we live.
    std::mutex mutex;
    std::vector<Waits*> waits;
  };
  Waits waits_;
  Waits session_waits_;
  Operations operations_;
  LogHub logs_;
  KnownPeers peers_;
  PeerBook book_;
  Edge edge_;
  std::shared_ptr<Alive> alive_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<GrpcPort> port_;
  std::unique_ptr<grpc::Server> server_;
};

// Workers say it in their messages.
absl::Status CompareEpochs(const Edge& edge, grpc::CallbackServerContext& context) {
  const uint64_t epoch = edge.loop.epoch();
  context.AddInitialMetadata(kEpochHeader, std::to_string(epoch));
  const auto said = context.client_metadata().find(kEpochHeader);
  if (said == context.client_metadata().end()) return absl::OkStatus();
  uint64_t seen = 0;
  const grpc::string_ref text = said->second;
  std::from_chars(text.data(), text.data() + text.size(), seen);
  return seen <= epoch ? absl::OkStatus() : AnotherHead(seen, epoch);
}

}  // namespace

absl::StatusOr<Identity> Admit(const Edge& edge, grpc::CallbackServerContext& context,
                               std::string_view method) {
  std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr) return absl::UnauthenticatedError("no certificate was presented");
  RT_ASSIGN_OR_RETURN(Identity who, edge.peers.Find(*auth));
  RT_RETURN_IF_ERROR(Authorize(method, who, edge.settings.cluster_id));
  if (who.kind != "node") {
    RT_RETURN_IF_ERROR(CompareEpochs(edge, context));
  } else if (method != "WorkerService/Sync") {  // The core decides what a Sync's node hears.
    RT_ASSIGN_OR_RETURN(const NodeId node, NodeOf(who));
    RT_RETURN_IF_ERROR(edge.loop.members().Check(node));
  }
  return who;
}

absl::StatusOr<std::unique_ptr<HeadServer>> HeadServer::Start(const Parts& parts,
                                                              const Credentials& credentials,
                                                              const std::string& listen,
                                                              std::function<void()> end_head) {
  auto server = std::make_unique<GrpcHeadServer>(parts, std::move(end_head));
  RT_RETURN_IF_ERROR(server->Listen(credentials, listen));
  return server;
}

}  // namespace rt
