// ExecutorService: drivers outside of the cluster reach their executors (docs/adr/0041). A stream
// of the driver's bridge is joined to one to the daemon of the executor's node. The head authorises
// the user and carries bytes; it reads none of them. One message is held in either direction, and
// the next is read once that one is written, so that gRPC's flow control reaches from end to end.
#include <map>
#include <mutex>
#include <optional>

#include "common/base/limits_executors.h"
#include "common/base/status.h"
#include "common/run/clock.h"
#include "head/service/services.h"
#include "rt/v1/task.grpc.pb.h"

namespace rt {
namespace {

// How many streams each user has open. Outlives them all.
class StreamCount {
 public:
  absl::Status Add(const std::string& user) {
    std::lock_guard lock(mutex_);
    if (all_ >= limits::kTaskStreamsMax)
      return absl::ResourceExhaustedError("the head carries " + std::to_string(all_) +
                                          " streams to executors, and may not carry more");
    if (by_user_[user] >= limits::kTaskStreamsPerUser)
      return WithHint(absl::ResourceExhaustedError(
                          user + " has " + std::to_string(limits::kTaskStreamsPerUser) +
                          " streams to executors open, and may not have more"),
                      "run the script in the cluster (rt submit): its nodes reach each other");
    ++by_user_[user];
    ++all_;
    return absl::OkStatus();
  }
  void Remove(const std::string& user) {
    std::lock_guard lock(mutex_);
    --all_;
    if (--by_user_[user] == 0) by_user_.erase(user);
  }

 private:
  std::mutex mutex_;
  size_t all_ = 0;
  std::map<std::string, size_t> by_user_;
};

using ServerSide = grpc::ServerBidiReactor<v1::TaskBytes, v1::TaskBytes>;
using NodeSide = grpc::ClientBidiReactor<v1::TaskBytes, v1::TaskBytes>;

struct Shared {
  Edge& edge;
  const Credentials credentials;  // The head's own.
  StreamCount count;
};

class RefusedDial final : public ServerSide {
 public:
  explicit RefusedDial(const absl::Status& why) { Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

// Both sides of one stream. The side of the driver is this object. It is deleted once both are
// done, because it finishes only when the other one is done, or was never begun.
class Join final : public ServerSide {
 public:
  Join(std::shared_ptr<Shared> shared, std::string user)
      : shared_(std::move(shared)), user_(std::move(user)), node_(*this) {
    StartRead(&from_driver_);
  }

  // The driver's side.
  void OnReadDone(bool ok) override {
    if (!is_asked_) return Ask(ok);
    std::lock_guard lock(mutex_);
    if (is_over_) return;
    if (ok) node_.StartWrite(&from_driver_);
    else node_.StartWritesDone();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) context_.TryCancel();
    std::lock_guard lock(mutex_);
    if (!is_over_) node_.StartRead(&from_node_);
  }
  void OnCancel() override { context_.TryCancel(); }
  void OnDone() override {
    shared_->count.Remove(user_);
    delete this;
  }

 private:
  class Node final : public NodeSide {
   public:
    explicit Node(Join& join) : join_(join) {}
    void OnReadDone(bool ok) override { join_.TakeFromNode(ok); }
    void OnWriteDone(bool ok) override {
      if (ok) join_.StartRead(&join_.from_driver_);
    }
    void OnDone(const grpc::Status& status) override { join_.Finish(status); }

   private:
    Join& join_;
  };

  // The first message says which executor; the state says where it runs.
  void Ask(bool ok) {
    is_asked_ = true;
    if (!ok) return Finish(grpc::Status::OK);
    const RouteAsk ask{{from_driver_.executor()}, user_, {}, from_driver_.session()};
    if (ask.session.empty()) return Finish(ToGrpc(Invalid("the first message needs the session")));
    shared_->edge.operations.Ask(
        [ask](const Core& core, const HeadFacts&) { return ExecutorRoute(core, ask); },
        [this](absl::StatusOr<Json> route) { Connect(std::move(route)); });
  }
  void Connect(const absl::StatusOr<Json>& route) {
    if (!route.ok()) return Finish(ToGrpc(route.status()));
    const NodeId node{static_cast<uint64_t>(route->GetInt("node"))};
    const std::optional<PeerBook::Source> place = shared_->edge.book.AddressOf(node);
    if (!place)
      return Finish(ToGrpc(absl::UnavailableError("the executor's node serves no others")));
    const std::string name =
        NodeName(shared_->edge.settings.cluster_id, std::to_string(node.value));
    stub_ = v1::TaskService::NewStub(
        MakeNamedChannel(place->address, shared_->credentials, name, /*bulk=*/true));
    from_driver_.Clear();
    from_driver_.set_run(route->GetString("run"));
    stub_->async()->Dial(&context_, &node_);
    node_.AddHold();  // Until its side is over: operations come from the driver's side as well.
    node_.StartWrite(&from_driver_);
    node_.StartRead(&from_node_);
    node_.StartCall();
  }
  void TakeFromNode(bool ok) {
    if (ok) return StartWrite(&from_node_);
    std::lock_guard lock(mutex_);
    is_over_ = true;
    node_.RemoveHold();
  }

  const std::shared_ptr<Shared> shared_;
  const std::string user_;
  bool is_asked_ = false;
  std::mutex mutex_;
  bool is_over_ = false;  // Nothing is begun on the node's side any more.
  v1::TaskBytes from_driver_, from_node_;
  grpc::ClientContext context_;
  std::unique_ptr<v1::TaskService::Stub> stub_;
  Node node_;
};

class ExecutorService final : public v1::ExecutorService::CallbackService {
 public:
  ExecutorService(Edge& edge, const Credentials& credentials)
      : shared_(std::make_shared<Shared>(edge, credentials)) {}

  ServerSide* Dial(grpc::CallbackServerContext* context) override {
    const absl::StatusOr<Identity> who = Admit(shared_->edge, *context, "ExecutorService/Dial");
    if (!who.ok()) return new RefusedDial(who.status());
    if (const absl::Status full = shared_->count.Add(who->name); !full.ok())
      return new RefusedDial(full);
    return new Join(shared_, who->name);
  }

 private:
  const std::shared_ptr<Shared> shared_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeExecutorService(Edge& edge, const Credentials& credentials) {
  return std::make_unique<ExecutorService>(edge, credentials);
}

}  // namespace rt
