#include "worker/link/sync_loop.h"

#include <algorithm>
#include <chrono>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "common/rpc/identity.h"
#include "common/rpc/launch_wire.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"
#include "worker/link/wire.h"

namespace rt::worker {
namespace {

constexpr Millis kSyncPauseFirst = 50;
constexpr Millis kSyncPauseMost = 1'000;
constexpr Millis kDeadlineSlack = 5'000;
constexpr size_t kCallsMax = 2;

}  // namespace

struct SyncLoop::Call {
  uint64_t seq = 0;
  grpc::ClientContext context;
  v1::SyncRequest request;
  v1::SyncReply reply;
};

SyncLoop::SyncLoop(std::shared_ptr<grpc::Channel> channel, WorkerLoop& loop, LogSender& logs,
                   v1::Inventory inventory, uint64_t incarnation)
    : stub_(v1::WorkerService::NewStub(channel)),
      loop_(loop),
      logs_(logs),
      incarnation_(incarnation),
      inventory_(std::move(inventory)),
      hold_(limits::kSyncHold) {}

SyncLoop::~SyncLoop() { Stop(); }

void SyncLoop::Start(Millis disconnect_stop, uint64_t head_epoch) {
  seen_epoch_ = head_epoch;
  disconnect_stop_ = disconnect_stop;
  answered_at_ = SteadyClock();
  thread_ = std::thread([this] { Run(); });
}

void SyncLoop::Stop() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    for (auto& call : calls_) call->context.TryCancel();
    changed_.notify_all();
    changed_.wait(lock, [&] { return calls_.empty(); });
  }
  if (thread_.joinable()) thread_.join();
}

void SyncLoop::SyncNow() {
  std::lock_guard lock(mutex_);
  dirty_ = true;
  changed_.notify_all();
}

void SyncLoop::SetInventory(v1::Inventory inventory) {
  std::lock_guard lock(mutex_);
  inventory_ = std::move(inventory);
  dirty_ = true;
  changed_.notify_all();
}

void SyncLoop::SetNotice(std::optional<Notice> notice) {
  std::lock_guard lock(mutex_);
  notice_ = std::move(notice);
  dirty_ = true;
  changed_.notify_all();
}

void SyncLoop::SetGpuDrain(std::string why) {
  std::lock_guard lock(mutex_);
  gpu_drain_ = std::move(why);
  dirty_ = true;
  changed_.notify_all();
}

void SyncLoop::SetFault(FaultSource source, std::string why) {
  std::lock_guard lock(mutex_);
  faults_.erase(source);
  if (!why.empty()) faults_[source] = std::move(why);
  dirty_ = true;
  changed_.notify_all();
}

void SyncLoop::Leave(Millis away_for, Millis wait) {
  std::unique_lock lock(mutex_);
  if (away_for == 0 || notice_ || !reachable_) return;
  away_for_ = away_for;
  dirty_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, std::chrono::milliseconds(wait),
                    [&] { return is_away_told_ || is_away_lost_; });
  if (is_away_told_) {
    RT_LOG(kInfo) << "the head keeps what runs here for " << away_for / 1'000 << " s";
  }
}

Millis SyncLoop::Silence() {
  std::lock_guard lock(mutex_);
  return SteadyClock() - answered_at_;
}

void SyncLoop::SyncSoon() {
  std::lock_guard lock(mutex_);
  if (soon_at_ != 0) return;
  soon_at_ = SteadyClock() + limits::kSyncDelayMax;
  changed_.notify_all();
}

bool SyncLoop::MaySend() const {
  const bool dirty = dirty_ || (soon_at_ != 0 && SteadyClock() >= soon_at_);
  if (is_away_told_ || is_away_lost_) return false;  // A later one might say otherwise.
  const bool wanted = calls_.empty() || (dirty && calls_.size() < kCallsMax);
  return wanted && SteadyClock() >= not_before_;
}

void SyncLoop::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (MaySend()) {
      Send();
      continue;
    }
    StopWithoutHead();
    TakeNumber();
    const Millis now = SteadyClock();
    Millis left = 1'000;
    if (not_before_ > now) {
      left = not_before_ - now;
    } else if (soon_at_ > now) {
      left = std::min(left, soon_at_ - now);
    }
    changed_.wait_for(lock, std::chrono::milliseconds(left));
  }
}

void SyncLoop::StopWithoutHead() {
  const Millis silence = SteadyClock() - answered_at_;
  if (disconnect_stop_ == 0 || told_away_ || silence < disconnect_stop_) return;
  told_away_ = true;
  RT_LOG(kWarning) << "no head has answered for " << disconnect_stop_ / 1'000
                   << " s (--disconnect-stop, --dead-man): what runs is asked to save, and ended";
  ReachFailpoint("worker.fence.before_end");
  loop_.Post(input::HeadAway{});
}

void SyncLoop::StopWithoutIdentity(const grpc::Status& status) {
  if (told_away_) return;
  told_away_ = true;
  RT_LOG(kError) << EscapeControl(status.error_message())
                 << ": what runs here is asked to save, and ended. To join again, stop this "
                    "worker, remove the folder 'credentials' from its state directory, and start "
                    "it with a new token (rt token create --role worker)";
  loop_.Post(input::HeadAway{});
}

void SyncLoop::Send() {
  auto call = std::make_shared<Call>();
  call->seq = next_seq_++;
  dirty_ = false;
  soon_at_ = 0;
  call->context.set_deadline(std::chrono::system_clock::now() +
                             std::chrono::milliseconds(hold_ + kDeadlineSlack));
  v1::SyncRequest& request = call->request;
  request.set_incarnation(incarnation_);
  request.set_sync_seq(call->seq);
  request.set_seen_epoch(seen_epoch_);
  request.set_seen_version(seen_version_);
  request.set_seen_seq(seen_seq_);
  if (!calls_.empty()) request.set_open_seq(calls_.back()->seq);
  *request.mutable_inventory() = inventory_;
  if (notice_) {
    request.set_draining(true);
    request.set_drain_reason(notice_->reason);
    // Past the deadline the machine may go any moment.
    if (notice_->deadline != 0)
      request.set_drain_for_ms(std::max<Millis>(1, notice_->deadline - WallClock()));
  }
  if (!notice_ && !gpu_drain_.empty()) {
    request.set_draining(true);
    request.set_drain_reason(gpu_drain_);
  }
  if (ask_samples_)
    for (const GpuSample& sample : ask_samples_())
      *request.add_gpu_samples() = EncodeGpuSample(sample);
  if (ask_profiles_)
    for (const ProfileReport& report : ask_profiles_())
      *request.add_profiles() = EncodeProfile(report);
  request.set_away_for_ms(away_for_);
  const std::string asked = faults_.empty() && ask_fault_ ? ask_fault_() : "";
  request.set_trouble(faults_.empty() ? asked : faults_.begin()->second);
  for (const Observed& observed : loop_.observed())
    *request.add_observed() = EncodeObserved(observed);
  for (const Fence& fence : loop_.outputs_pending()) ToWire(fence, request.add_outputs());
  calls_.push_back(call);
  stub_->async()->Sync(&call->context, &call->request, &call->reply,
                       [this, call](const grpc::Status& status) { OnDone(call, status); });
}

void SyncLoop::OnDone(const std::shared_ptr<Call>& call, const grpc::Status& status) {
  std::lock_guard lock(mutex_);
  if (call->request.away_for_ms() > 0) (status.ok() ? is_away_told_ : is_away_lost_) = true;
  if (status.ok()) {
    if (!reachable_) {
      RT_LOG(kInfo) << "the head answers";
    }
    reachable_ = true;
    answered_at_ = SteadyClock();
    told_away_ = false;
    pause_ = 0;
    not_before_ = 0;
    CatchUp(call->reply);
    logs_.Take(call->reply);
    if (IsNews(call->reply)) Take(call->reply);
  } else if (!stopping_) {
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
      StopWithoutIdentity(status);
    } else if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
      next_seq_ = 1;  // The head may have heard higher numbers than ours; it then says which.
      RT_LOG(kError) << "the head refuses: " << EscapeControl(status.error_message());
    } else if (reachable_) {
      RT_LOG(kWarning) << "the head does not answer: " << EscapeControl(status.error_message());
    }
    reachable_ = false;
    dirty_ = true;
    pause_ = std::clamp(pause_ * 2, kSyncPauseFirst, kSyncPauseMost);
    // Workers that lost their head together do not come back together.
    const auto drawn = Mix64(static_cast<uint64_t>(SteadyClock()) ^ incarnation_ ^ next_seq_);
    not_before_ = SteadyClock() + pause_ / 2 + static_cast<Millis>(drawn % (pause_ / 2 + 1));
  }
  std::erase(calls_, call);
  changed_.notify_all();
}

// Only this daemon makes calls under its numbers, so a higher one than its own is made up by
// somebody who has its certificate. Calls below that number are ignored as late ones.
void SyncLoop::CatchUp(const v1::SyncReply& reply) {
  NoteLater(reply);
  if (reply.newest_incarnation() != incarnation_ || reply.newest_seq() < next_seq_) return;
  RT_LOG(kError) << "another program has used this node's certificate: the head heard call "
                 << reply.newest_seq() << ", and the last one here was " << next_seq_ - 1;
  next_seq_ = reply.newest_seq() + 1;
  dirty_ = true;
}

void SyncLoop::NoteLater(const v1::SyncReply& reply) {
  if (reply.newest_incarnation() <= incarnation_) {
    later_ = {};
    return;
  }
  const bool is_new = later_.incarnation != reply.newest_incarnation();
  if (is_new) {
    RT_LOG(kError) << "the head listens to a later daemon of this node (incarnation "
                   << reply.newest_incarnation() << ", this one is " << incarnation_
                   << "): another program has this node's certificate";
  }
  // The head forgets the calls of a node that is lost, and then says 0.
  const bool moved = is_new || reply.newest_seq() > later_.seq;
  if (moved) later_ = {reply.newest_incarnation(), reply.newest_seq(), SteadyClock()};
}

// Of two programs that both call, neither is to displace the other in turn. One that has fallen
// silent leaves the node to this daemon, which holds the lock of its state directory.
void SyncLoop::TakeNumber() {
  const Millis bound = std::max(limits::kRivalSilent, 3 * hold_);
  const bool is_silent = later_.incarnation != 0 && SteadyClock() - later_.moved_at >= bound;
  if (!is_silent || !reachable_ || !renumber_) return;
  const absl::StatusOr<uint64_t> next = renumber_(later_.incarnation);
  later_.moved_at = SteadyClock();
  if (!next.ok()) {
    RT_LOG(kError) << "cannot take a later incarnation: " << MessageOf(next.status());
    return;
  }
  RT_LOG(kWarning) << "the later daemon of this node is silent: this one continues as incarnation "
                   << *next;
  incarnation_ = *next;
  next_seq_ = 1;
  later_ = {};
  dirty_ = true;
}

// Replies may overtake each other: an older one would stop what a newer one has started.
bool SyncLoop::IsNews(const v1::SyncReply& reply) const {
  return reply.epoch() > seen_epoch_ ||
         (reply.epoch() == seen_epoch_ && reply.version() >= seen_version_);
}

// A body that cannot be read is asked for again, as one that did not come.
bool SyncLoop::TakeBody(const std::string& bytes, const Fence& fence, LaunchBody& body) {
  absl::StatusOr<LaunchSpec> spec = DecodeLaunch(bytes);
  if (!spec.ok()) {
    RT_LOG(kError) << rt::ToString(fence) << ": the head sent " << MessageOf(spec.status());
    return false;
  }
  static_cast<LaunchSpec&>(body) = *std::move(spec);
  body.fence = fence;
  return true;
}

void SyncLoop::Take(const v1::SyncReply& reply) {
  ReachFailpoint("worker.sync.before_take");
  seen_epoch_ = reply.epoch();
  seen_version_ = reply.version();
  seen_seq_ = reply.durable_seq();
  if (reply.hold_ms() > 0) hold_ = std::min<Millis>(reply.hold_ms(), 60'000);
  if (clear_gpu_)
    for (const v1::ClearedGpu& one : reply.cleared_gpus()) clear_gpu_(one.uuid(), one.quarantine());
  if (fault_gpu_)
    for (const v1::FaultyGpu& one : reply.faulty_gpus()) fault_gpu_(one.uuid(), one.what());
  input::Desired desired{.epoch = reply.epoch()};
  std::vector<LaunchBody> bodies;
  for (const v1::Desired& one : reply.desired()) {
    const Fence fence = FromWire(one.fence());
    LaunchBody body;
    const bool has_body = !one.body().empty() && TakeBody(one.body(), fence, body);
    desired.attempts.push_back(
        {fence, one.stop(), has_body, one.suspend(), one.judged_seq(), one.move(),
         one.move_for_ms() == 0 ? 0 : WallClock() + one.move_for_ms(), one.whole_seq(),
         one.has_after() ? std::optional(FromWire(one.after())) : std::nullopt, one.profile_seq(),
         one.freeze()});
    if (has_body) bodies.push_back(std::move(body));
  }
  loop_.PostDesired(std::move(desired), std::move(bodies));
}

}  // namespace rt::worker
