#include "worker/link/peer_server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/strings/numbers.h"
#include "common/base/ids.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_port.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"
#include "common/run/io_pool.h"
#include "rt/v1/checkpoint.grpc.pb.h"
#include "worker/link/barrier_link.h"
#include "worker/link/executor_relay.h"

namespace rt::worker {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kArrivalThreads = 2, kArrivalsMax = 1'024;
// Lets so many bytes pass in a second.
class Gate {
 public:
  explicit Gate(Bytes bytes_per_second) : rate_(bytes_per_second) {}
  void Pass(size_t bytes) {
    if (rate_ <= 0) return;
    Clock::time_point start;
    {
      std::lock_guard lock(mutex_);
      start = std::max(next_, Clock::now());
      next_ = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                          static_cast<double>(bytes) / static_cast<double>(rate_)));
    }
    std::this_thread::sleep_until(start);
  }

 private:
  const Bytes rate_;
  std::mutex mutex_;
  Clock::time_point next_{};
};

// One of the streams and requests that are being served, for as long as it lives.
class Place {
 public:
  explicit Place(std::atomic<size_t>& taken) : taken_(taken), number_(++taken) {}
  ~Place() { --taken_; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  size_t number() const { return number_; }

 private:
  std::atomic<size_t>& taken_;
  const size_t number_;
};

// Sends chunks and manifests one after another. Run is called on a thread of the pool, which waits
// for each piece to be written: gRPC's own threads never wait for a disk or for a peer.
class PullStream final : public grpc::ServerWriteReactor<v1::ChunkPiece> {
 public:
  struct Source {
    LocalTrees& trees;
    Gate& gate;
    std::atomic<size_t>& served;  // Bytes.
    const std::function<absl::Status(uint64_t)>& check_member;
  };
  PullStream(Source source, std::atomic<size_t>& places, const v1::PullRequest& request,
             uint64_t node)
      : source_(source), place_(places), request_(request), node_(node) {}

  size_t number() const { return place_.number(); }
  // The last call that the pool makes: the stream may be gone when it returns.
  void Run() { Finish(Serve()); }
  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    written_ = ok;
    changed_.notify_one();
  }
  void OnDone() override { delete this; }

 private:
  grpc::Status Serve() {
    if (source_.check_member)
      if (absl::Status member = source_.check_member(node_); !member.ok()) return ToGrpc(member);
    for (const std::string& digest : request_.digests()) {
      if (absl::Status failed = FailAt("worker.peer.before_serve"); !failed.ok())
        return ToGrpc(failed);
      auto bytes = source_.trees.GetChunk({.digest = digest, .manifest = request_.manifest()});
      if (absl::IsNotFound(bytes.status())) bytes = source_.trees.GetManifest(digest);
      if (!bytes.ok()) return ToGrpc(bytes.status());
      if (!Send(digest, *bytes)) return grpc::Status::CANCELLED;
      source_.served += bytes->size();
      if (absl::Status failed = FailAt("worker.peer.mid_serve"); !failed.ok())
        return ToGrpc(failed);
    }
    return grpc::Status::OK;
  }
  // False when the stream has ended.
  bool Send(const std::string& digest, const std::string& bytes) {
    size_t offset = 0;
    do {
      const size_t size = std::min(limits::kStreamPieceBytes, bytes.size() - offset);
      source_.gate.Pass(size);
      v1::ChunkPiece piece;
      piece.set_digest(digest);
      piece.set_offset(offset);
      piece.set_size(bytes.size());
      piece.set_data(bytes.data() + offset, size);
      if (!Write(piece)) return false;
      offset += size;
    } while (offset < bytes.size());
    return true;
  }
  bool Write(const v1::ChunkPiece& piece) {
    std::unique_lock lock(mutex_);
    written_.reset();
    StartWrite(&piece);
    changed_.wait(lock, [this] { return written_.has_value(); });
    return *written_;
  }

  const Source source_;
  const Place place_;
  const v1::PullRequest request_;
  const uint64_t node_;  // That asks.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<bool> written_;  // Whether the last piece was; empty while it is under way.
};

// Refused before it begins.
class RefusedStream final : public grpc::ServerWriteReactor<v1::ChunkPiece> {
 public:
  explicit RefusedStream(const absl::Status& why) { Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

class Service final : public v1::PeerService::CallbackService {
 public:
  Service(const PeerServerOptions& options, std::string cluster_id, LocalTrees& trees)
      : gate_(options.bytes_per_second), places_max_(options.streams_max),
        cluster_id_(std::move(cluster_id)), trees_(trees), replicate_(options.replicate),
        check_member_(options.check_member), barriers_(options.barriers),
        read_stacks_(options.read_stacks), pool_(places_max_, places_max_),
        arrivals_(kArrivalThreads, kArrivalsMax) {}
  // After the server's shutdown: nothing new comes to the pool.
  void Stop() {
    pool_.Stop();
    arrivals_.Stop();
  }

  grpc::ServerWriteReactor<v1::ChunkPiece>* PullChunks(grpc::CallbackServerContext* context,
                                                       const v1::PullRequest* request) override {
    const absl::StatusOr<uint64_t> node = Admit(*context);
    if (!node.ok()) return new RefusedStream(node.status());
    if (request->digests_size() > limits::kDigestsMax)
      return new RefusedStream(Invalid("at most 10000 digests in one call"));
    auto stream = std::make_unique<PullStream>(
        PullStream::Source{trees_, gate_, served_, check_member_}, places_, *request, *node);
    if (stream->number() > places_max_ ||
        !pool_.TrySubmit([running = stream.get()] { running->Run(); }))
      return new RefusedStream(absl::ResourceExhaustedError("others are being served"));
    return stream.release();
  }
  grpc::ServerUnaryReactor* HoldTree(grpc::CallbackServerContext* context,
                                     const v1::HoldTreeRequest* request,
                                     v1::HoldTreeReply*) override {
    return Serve(*context, [this, request](uint64_t node) { return Replicate(node, *request); });
  }
  // The answer is given by whoever settles the barrier.
  grpc::ServerUnaryReactor* Arrive(grpc::CallbackServerContext* context,
                                   const v1::ArriveRequest* request,
                                   v1::ArriveReply* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const absl::StatusOr<uint64_t> node = Admit(*context);
    if (!node.ok()) {
      reactor->Finish(ToGrpc(node.status()));
    } else if (!arrivals_.TrySubmit([this, reactor, reply, node = *node, request] {
                 TakeArrival(node, *request, reactor, reply);
               })) {
      reactor->Finish(ToGrpc(absl::ResourceExhaustedError("others are being served")));
    }
    return reactor;
  }
  grpc::ServerUnaryReactor* Stacks(grpc::CallbackServerContext* context,
                                   const v1::StacksRequest* request,
                                   v1::StacksReply* reply) override {
    return Serve(*context, [this, request, reply](uint64_t node) {
      return ReadStacks(node, *request, *reply);
    });
  }
  Bytes served() const { return static_cast<Bytes>(served_); }
  // Of a call of TaskService, which may block: by another node, or by the head for a driver outside
  // of the cluster.
  absl::Status AdmitCaller(const grpc::ServerContextBase& context) {
    if (IsHead(context)) return absl::OkStatus();
    RT_ASSIGN_OR_RETURN(const uint64_t node, Admit(context));
    return check_member_ ? check_member_(node) : absl::OkStatus();
  }

 private:
  // Runs `work(node)` on a thread of the pool and ends the call with its status, if the caller is a
  // node and there is a place for it.
  template <typename Work>
  grpc::ServerUnaryReactor* Serve(grpc::CallbackServerContext& context, Work work) {
    grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
    const absl::StatusOr<uint64_t> node = Admit(context);
    auto place = std::make_shared<Place>(places_);
    if (!node.ok()) {
      reactor->Finish(ToGrpc(node.status()));
    } else if (place->number() > places_max_ ||
               !pool_.TrySubmit([reactor, place, node = *node, work = std::move(work)] {
                 reactor->Finish(ToGrpc(work(node)));
               })) {
      reactor->Finish(ToGrpc(absl::ResourceExhaustedError("others are being served")));
    }
    return reactor;
  }
  void TakeArrival(uint64_t node, const v1::ArriveRequest& request,
                   grpc::ServerUnaryReactor* reactor, v1::ArriveReply* reply) {
    const absl::Status member = check_member_ ? check_member_(node) : absl::OkStatus();
    const std::optional<BarrierQuestion> question = QuestionFrom(request);
    if (!member.ok() || !question || barriers_ == nullptr) {
      const absl::Status why = Invalid("not an attempt with several ranks");
      return reactor->Finish(ToGrpc(member.ok() ? why : member));
    }
    barriers_->Answer(*question, node, SteadyClock(), [reactor, reply](const BarrierState& state) {
      ToWire(state, *reply);
      reactor->Finish(grpc::Status::OK);
    });
  }
  absl::Status ReadStacks(uint64_t node, const v1::StacksRequest& request, v1::StacksReply& reply) {
    if (check_member_) RT_RETURN_IF_ERROR(check_member_(node));
    const auto asked = RanksFrom(request);
    if (!asked || !read_stacks_) return Invalid("not an attempt with several ranks");
    for (const RankStack& stack : read_stacks_(asked->first, asked->second)) {
      v1::RankStack* added = reply.add_stacks();
      added->set_rank(stack.rank);
      added->set_text(stack.text);
    }
    return absl::OkStatus();
  }
  bool IsHead(const grpc::ServerContextBase& context) {
    const auto auth = context.auth_context();
    if (auth == nullptr) return false;
    const absl::StatusOr<Identity> who = peers_.Find(*auth);
    return who.ok() && who->cluster_id == cluster_id_ && who->role == "head";
  }
  // The number of the node that asks.
  absl::StatusOr<uint64_t> Admit(const grpc::ServerContextBase& context) {
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
    return node;
  }
  absl::Status Replicate(uint64_t node, const v1::HoldTreeRequest& request) {
    if (check_member_) RT_RETURN_IF_ERROR(check_member_(node));
    const std::optional<Fence> fence = ParseFence(request.fence());
    if (!fence || !IsDigest(request.manifest()) || !replicate_)
      return Invalid("not a tree that can be replicated");
    return replicate_({request.manifest(), *fence, request.row(), node, request.address()});
  }

  Gate gate_;
  const size_t places_max_;
  const std::string cluster_id_;
  LocalTrees& trees_;
  const PeerServerOptions::Replicate replicate_;
  const std::function<absl::Status(uint64_t)> check_member_;
  Barriers* const barriers_;
  const StackLink::ReadHere read_stacks_;
  KnownPeers peers_;
  std::atomic<size_t> places_ = 0;
  std::atomic<size_t> served_ = 0;
  IoPool pool_;      // A thread for each place.
  IoPool arrivals_;  // At barriers: they do not wait for transfers.
};

}  // namespace

struct PeerServer::Impl {
  Impl(const PeerServerOptions& options, std::string cluster_id, LocalTrees& trees)
      : service(options, std::move(cluster_id), trees) {
    if (options.state_dir.empty()) return;
    tasks = MakeTaskService(options.state_dir, [this](const grpc::ServerContext& context) {
      return service.AdmitCaller(context);
    });
  }
  Service service;
  std::unique_ptr<grpc::Service> tasks;
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
  if (impl->tasks != nullptr) builder.RegisterService(impl->tasks.get());
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
  impl_->service.Stop();
}
std::string PeerServer::address() const { return impl_->address; }
Bytes PeerServer::served() const { return impl_->service.served(); }
std::string PeerServer::fault() const { return impl_->port->fault(); }

}  // namespace rt::worker
