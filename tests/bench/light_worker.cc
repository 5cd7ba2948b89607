#include "tests/bench/light_worker.h"

#include <chrono>

#include "common/rpc/channel.h"
#include "common/rpc/launch_wire.h"
#include "worker/link/wire.h"

namespace rt::bench {
namespace {

using Clock = std::chrono::steady_clock;
namespace input = worker::input;
namespace action = worker::action;

double MillisSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}
Millis WallNow() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

struct LightWorker::Call {
  uint64_t seq = 0;
  Clock::time_point begin = Clock::now();
  grpc::ClientContext context;
  v1::SyncRequest request;
  v1::SyncReply reply;
};
struct LightWorker::Rows {
  Clock::time_point begin = Clock::now();
  grpc::ClientContext context;
  v1::ReportRequest request;
  v1::ReportReply reply;
};

LightWorker::LightWorker(LightWorkerOptions options)
    : options_(std::move(options)),
      stub_(v1::WorkerService::NewStub(
          MakeChannel(options_.head, options_.credentials, options_.cluster_id, false))) {}

void LightWorker::Start() {
  std::lock_guard lock(mutex_);
  SendIfDue();
}

void LightWorker::Stop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
}

bool LightWorker::is_idle() {
  std::lock_guard lock(mutex_);
  return open_ == 0;
}

std::vector<double> LightWorker::TakeLatencies() {
  std::lock_guard lock(mutex_);
  return std::exchange(latencies_, {});
}

// The programs' side: what the core asks for happens at once.
void LightWorker::Feed(const worker::WorkerInput& fed) {
  for (const worker::Action& one : worker::Step(state_, fed, WallNow())) {
    if (const auto* prepare = std::get_if<action::Prepare>(&one)) {
      Feed(input::Prepared{prepare->fence});
    } else if (const auto* launch = std::get_if<action::Launch>(&one)) {
      ++started_;
      Feed(input::Launched{launch->fence, 1});
      if (options_.reports) {
        running_[launch->fence] = 0;
      } else {
        Feed(input::Exited{launch->fence, {}});
        Feed(input::Drained{launch->fence, 0, {}});
      }
    } else if (const auto* signal = std::get_if<action::Signal>(&one)) {
      const uint64_t rows = running_[signal->fence];
      running_.erase(signal->fence);
      Feed(input::Exited{signal->fence, {.signal = 15}});
      Feed(input::Drained{signal->fence, rows, {}});
    } else if (std::holds_alternative<action::SyncNow>(one) ||
               std::holds_alternative<action::SyncSoon>(one)) {
      dirty_ = true;
    }
  }
}

void LightWorker::SendIfDue() {
  const bool wanted = syncs_open_ == 0 || (dirty_ && syncs_open_ < 2);
  if (stopping_ || !wanted) return;
  dirty_ = false;
  auto call = std::make_shared<Call>();
  call->seq = next_seq_++;
  v1::SyncRequest& request = call->request;
  request.set_incarnation(1);
  request.set_sync_seq(call->seq);
  request.set_seen_epoch(seen_epoch_);
  request.set_seen_version(seen_version_);
  if (syncs_open_ > 0) request.set_open_seq(call->seq - 1);
  v1::Inventory& inventory = *request.mutable_inventory();
  inventory.set_address("127.0.0.1");
  inventory.set_version(RT_VERSION);
  inventory.set_boot_id("light");
  inventory.mutable_resources()->set_cpu(options_.slots * 10'000);
  for (const worker::Observed& observed : worker::ObservedList(state_)) {
    *request.add_observed() = EncodeObserved(observed);
  }
  ++open_;
  ++syncs_open_;
  stub_->async()->Sync(&call->context, &call->request, &call->reply,
                       [this, call](const grpc::Status& status) { OnReply(call, status); });
}

void LightWorker::OnReply(const std::shared_ptr<Call>& call, const grpc::Status& status) {
  std::lock_guard lock(mutex_);
  --open_;
  --syncs_open_;
  if (status.ok() && call->seq > taken_seq_) {
    ++syncs_;
    taken_seq_ = call->seq;
    seen_epoch_ = call->reply.epoch();
    seen_version_ = call->reply.version();
    input::Desired desired{.epoch = seen_epoch_};
    for (const v1::Desired& one : call->reply.desired()) {
      desired.attempts.push_back({worker::FromWire(one.fence()), one.stop(), !one.body().empty()});
    }
    const double late = MillisSince(call->begin) - static_cast<double>(call->reply.hold_ms());
    if (late >= 0) latencies_.push_back(late);
    Feed(desired);
  }
  SendIfDue();
}

void LightWorker::Report() {
  std::lock_guard lock(mutex_);
  if (stopping_ || running_.empty()) return;
  auto rows = std::make_shared<Rows>();
  for (auto& [fence, seq] : running_) {
    v1::RowBatch* batch = rows->request.add_batches();
    worker::ToWire(fence.attempt, batch->mutable_attempt());
    batch->set_rank(fence.rank);
    worker::SpoolRow row{.seq = ++seq, .iteration = static_cast<double>(seq)};
    row.time_total_s = static_cast<double>(seq);
    row.timestamp = WallNow();
    row.metrics = "{\"loss\":" + std::to_string(1.0 / static_cast<double>(seq)) + "}";
    worker::ToWire(row, batch->add_rows());
  }
  ++open_;
  stub_->async()->Report(&rows->context, &rows->request, &rows->reply,
                         [this, rows](const grpc::Status& status) { OnReported(rows, status); });
}

void LightWorker::OnReported(const std::shared_ptr<Rows>& rows, const grpc::Status& status) {
  std::lock_guard lock(mutex_);
  --open_;
  if (!status.ok()) return;
  for (const v1::Verdict& verdict : rows->reply.verdicts()) acked_rows_ += !verdict.stale();
}

}  // namespace rt::bench
