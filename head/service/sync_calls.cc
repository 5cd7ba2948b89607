#include "head/service/sync_calls.h"

#include <mutex>

#include "common/base/status.h"
#include "head/service/translate.h"

namespace rt {

// One held Sync. The loop answers every PostSync, so Finish comes exactly once, then OnDone.
class SyncCalls::Call final : public grpc::ServerUnaryReactor {
 public:
  Call(SyncCalls& owner, grpc::CallbackServerContext* context) : owner_(owner), context_(context) {}

  void Begin(const v1::SyncRequest& request, v1::SyncReply* reply) {
    absl::StatusOr<Identity> who = Admit(owner_.edge_, *context_, "WorkerService/Sync");
    absl::StatusOr<NodeId> node = who.ok() ? NodeOf(*who) : who.status();
    absl::StatusOr<input::Sync> sync =
        node.ok() ? SyncFromWire(request, *node) : absl::StatusOr<input::Sync>(node.status());
    if (!sync.ok()) return Finish(ToGrpc(sync.status()));
    // The last call of a daemon is answered at once, like that of one that has seen nothing.
    const bool is_last = request.away_for_ms() > 0;
    const SyncSeen seen = is_last ? SyncSeen{}
                                  : SyncSeen{request.seen_version(), request.open_seq()};
    NodeId speaker = *node;
    {
      std::lock_guard lock(mutex_);
      call_ = {speaker, sync->incarnation, sync->sync_seq};
    }
    Edge& edge = owner_.edge_;
    // From here on this call may end at any moment: no member is touched after PostSync.
    edge.loop.PostSync(std::move(*sync), seen,
                       [this, reply](SyncReply answer) { Answer(answer, reply); });
    if (edge.logs.HasUntold(speaker)) edge.loop.Wake(speaker);
  }

  void OnCancel() override {
    // A deadline of the worker's own is no disconnect.
    if (context_->deadline() <= std::chrono::system_clock::now()) return;
    input::Disconnected call;
    {
      std::lock_guard lock(mutex_);
      call = call_;
    }
    if (call.node.value == 0) return;
    owner_.edge_.loop.Post(call, [](const absl::Status&, const rt::Answer&) {});
    owner_.edge_.loop.Wake(call.node);  // Nobody waits for it, but the end of the server does.
  }
  void OnDone() override { delete this; }

 private:
  void Answer(const SyncReply& answer, v1::SyncReply* reply) {
    if (answer.status.ok()) {
      FillReply(answer, reply);
      for (const LogHub::Open& open : owner_.edge_.logs.OpenFor(call_.node)) {
        auto* request = reply->add_logs();
        request->set_id(open.id);
        *request->mutable_fence() = ToWire(open.query.fence);
        request->set_stream(open.query.stream);
        request->set_offset(open.query.offset);
        request->set_tail_lines(open.query.tail_lines);
        request->set_follow(open.query.follow);
        request->set_daemon(open.query.daemon);
      }
    }
    Finish(ToGrpc(answer.status));
  }

  SyncCalls& owner_;
  grpc::CallbackServerContext* context_;
  std::mutex mutex_;
  input::Disconnected call_;  // Its node is 0 until the call is posted.
};

grpc::ServerUnaryReactor* SyncCalls::Start(grpc::CallbackServerContext* context,
                                           const v1::SyncRequest& request, v1::SyncReply* reply) {
  auto* call = new Call(*this, context);
  call->Begin(request, reply);
  return call;
}

}  // namespace rt
