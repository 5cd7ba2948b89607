#include "worker/link/peer_server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/strings/numbers.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_port.h"
#include "common/run/failpoint.h"
#include "rt/v1/checkpoint.grpc.pb.h"

namespace rt::worker {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kDigestsMax = 10'000;

// Lets so many bytes pass in a second.
class Gate {
 public:
  explicit Gate(Bytes bytes_per_second) : rate_(bytes_per_second) {}
  void Pass(size_t bytes) {
    if (rate_ <= 0) return;
    Clock::time_point turn;
    {
      std::lock_guard lock(mutex_);
      turn = std::max(next_, Clock::now());
      next_ = turn + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                         static_cast<double>(bytes) / static_cast<double>(rate_)));
    }
    std::this_thread::sleep_until(turn);
  }

 private:
  const Bytes rate_;
  std::mutex mutex_;
  Clock::time_point next_{};
};

class Service final : public v1::PeerService::Service {
 public:
  Service(const PeerServerOptions& options, std::string cluster_id, LocalTrees& trees)
      : gate_(options.bytes_per_second), streams_max_(options.streams_max),
        cluster_id_(std::move(cluster_id)), trees_(trees), hold_(options.hold),
        check_member_(options.check_member) {}

  grpc::Status PullChunks(grpc::ServerContext* context, const v1::PullRequest* request,
                          grpc::ServerWriter<v1::ChunkPiece>* writer) override {
    if (absl::Status admitted = Admit(*context).status(); !admitted.ok()) return ToGrpc(admitted);
    if (request->digests_size() > kDigestsMax)
      return ToGrpc(Invalid("at most 10000 digests in one call"));
    const Stream stream(streams_);
    if (stream.number > streams_max_)
      return ToGrpc(absl::ResourceExhaustedError("others are being served"));
    for (const std::string& digest : request->digests()) {
      if (absl::Status failed = FailAt("worker.peer.before_serve"); !failed.ok())
        return ToGrpc(failed);
      auto bytes = trees_.GetChunk({.digest = digest, .manifest = request->manifest()});
      if (absl::IsNotFound(bytes.status())) bytes = trees_.GetManifest(digest);
      if (!bytes.ok()) return ToGrpc(bytes.status());
      if (!Write(digest, *bytes, *writer)) return grpc::Status::CANCELLED;
      served_ += bytes->size();
      if (absl::Status failed = FailAt("worker.peer.mid_serve"); !failed.ok())
        return ToGrpc(failed);
    }
    return grpc::Status::OK;
  }
  grpc::Status HoldTree(grpc::ServerContext* context, const v1::HoldTreeRequest* request,
                        v1::HoldTreeReply*) override {
    const absl::StatusOr<uint64_t> node = Admit(*context);
    if (!node.ok()) return ToGrpc(node.status());
    const std::optional<Fence> fence = ParseFence(request->fence());
    if (!fence || !IsDigest(request->manifest()) || !hold_)
      return ToGrpc(Invalid("not a tree that can be held"));
    const Stream stream(streams_);
    if (stream.number > streams_max_)
      return ToGrpc(absl::ResourceExhaustedError("others are being served"));
    return ToGrpc(hold_({request->manifest(), *fence, request->row(), *node, request->address()}));
  }
  Bytes served() const { return static_cast<Bytes>(served_); }

 private:
  struct Stream {
    explicit Stream(std::atomic<size_t>& streams) : open(streams), number(++streams) {}
    ~Stream() { --open; }
    std::atomic<size_t>& open;
    const size_t number;
  };
  // The number of the node that asks.
  absl::StatusOr<uint64_t> Admit(const grpc::ServerContext& context) {
    auto auth = context.auth_context();
    if (auth == nullptr) return absl::UnauthenticatedError("no certificate was presented");
    RT_ASSIGN_OR_RETURN(const Identity who, peers_.Find(*auth));
    if (who.cluster_id != cluster_id_)
      return absl::UnauthenticatedError("this certificate belongs to another cluster");
    if (who.role != "worker")
      return absl::PermissionDeniedError("only workers fetch from each other");
    uint64_t node = 0;
    if (!absl::SimpleAtoi(who.name, &node) || node == 0)
      return absl::PermissionDeniedError("this certificate does not name a node");
    if (check_member_) RT_RETURN_IF_ERROR(check_member_(node));
    return node;
  }
  // False when the stream has ended.
  bool Write(const std::string& digest, const std::string& bytes,
             grpc::ServerWriter<v1::ChunkPiece>& writer) {
    size_t offset = 0;
    do {
      v1::ChunkPiece piece;
      const size_t size = std::min(limits::kStreamPieceBytes, bytes.size() - offset);
      gate_.Pass(size);
      piece.set_digest(digest);
      piece.set_offset(offset);
      piece.set_size(bytes.size());
      piece.set_data(bytes.data() + offset, size);
      if (!writer.Write(piece)) return false;
      offset += size;
    } while (offset < bytes.size());
    return true;
  }

  Gate gate_;
  const size_t streams_max_;
  const std::string cluster_id_;
  LocalTrees& trees_;
  const PeerServerOptions::Hold hold_;
  const std::function<absl::Status(uint64_t)> check_member_;
  KnownPeers peers_;
  std::atomic<size_t> streams_ = 0;
  std::atomic<size_t> served_ = 0;
};

}  // namespace

struct PeerServer::Impl {
  Impl(const PeerServerOptions& options, std::string cluster_id, LocalTrees& trees)
      : service(options, std::move(cluster_id), trees) {}
  Service service;
  std::string address;
  std::unique_ptr<GrpcPort> port;
  std::unique_ptr<grpc::Server> server;
};

absl::StatusOr<std::unique_ptr<PeerServer>> PeerServer::Start(const PeerServerOptions& options,
                                                              const Credentials& credentials,
                                                              LocalTrees& trees) {
  RT_ASSIGN_OR_RETURN(const Identity own, IdentityOf(credentials.own.certificate_pem));
  auto impl = std::make_unique<Impl>(options, own.cluster_id, trees);
  const bool is_v6 = options.host.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + options.host + "]" : options.host;
  const std::string wanted = host + ":" + std::to_string(options.port);
  absl::StatusOr<std::unique_ptr<GrpcPort>> bound = GrpcPort::Listen({.address = wanted});
  if (!bound.ok()) return Annotate(bound.status(), "cannot listen at " + wanted);
  impl->port = std::move(*bound);
  grpc::ServerBuilder builder;
  impl->port->AddTo(builder, credentials);
  builder.RegisterService(&impl->service);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr) return absl::InternalError("the gRPC server did not start");
  impl->port->Start();
  impl->address = host + ":" + std::to_string(impl->port->port());
  return std::unique_ptr<PeerServer>(new PeerServer(std::move(impl)));
}

PeerServer::PeerServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PeerServer::~PeerServer() {
  impl_->port->Stop();
  impl_->server->Shutdown(std::chrono::system_clock::now());
}
std::string PeerServer::address() const { return impl_->address; }
Bytes PeerServer::served() const { return impl_->service.served(); }

}  // namespace rt::worker
