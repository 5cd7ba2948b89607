#include "head/service/log_sender.h"

#include "common/rpc/channel.h"

namespace rt {
namespace {

class LogSender final : public grpc::ServerReadReactor<v1::LogPiece>,
                        public std::enable_shared_from_this<LogSender> {
 public:
  LogSender(LogHub& hub, NodeId node) : hub_(hub), node_(node) {}

  void Start(const absl::Status& admitted) {
    self_ = shared_from_this();
    if (!admitted.ok()) End(admitted);
    else StartRead(&piece_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return End(absl::OkStatus());
    if (relay_ == nullptr) relay_ = hub_.Attach(node_, piece_.id());
    if (relay_ == nullptr || relay_->abandoned())
      return End(absl::CancelledError("nobody reads this log"));
    rt::LogPiece piece{std::move(*piece_.mutable_data()), piece_.offset(), piece_.end(),
                   piece_.error()};
    std::weak_ptr<LogSender> weak = weak_from_this();
    bool space = relay_->Push(std::move(piece), [weak] {
      if (auto self = weak.lock()) self->ReadOn();
    });
    if (space) ReadOn();
  }
  void OnCancel() override { End(absl::CancelledError("the worker left")); }
  void OnDone() override { self_.reset(); }

 private:
  void ReadOn() {
    std::lock_guard lock(mutex_);
    if (!ended_) StartRead(&piece_);
  }
  void End(const absl::Status& status) {
    std::shared_ptr<LogRelay> relay;
    {
      std::lock_guard lock(mutex_);
      if (ended_) return;
      ended_ = true;
      relay = relay_;
      Finish(ToGrpc(status));
    }
    if (relay) relay->CloseSender();
  }

  LogHub& hub_;
  const NodeId node_;
  std::shared_ptr<LogSender> self_;  // Until OnDone.
  std::mutex mutex_;
  bool ended_ = false;
  v1::LogPiece piece_;
  std::shared_ptr<LogRelay> relay_;
};

}  // namespace

grpc::ServerReadReactor<v1::LogPiece>* StartLogSender(LogHub& hub,
                                                      const absl::StatusOr<NodeId>& node) {
  auto sender = std::make_shared<LogSender>(hub, node.ok() ? *node : NodeId{});
  sender->Start(node.status());
  return sender.get();
}

}  // namespace rt
