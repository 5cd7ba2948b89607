#include "worker/link/report_loop.h"

#include <chrono>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/run/failpoint.h"
#include "worker/link/wire.h"

namespace rt::worker {
namespace {

constexpr Millis kPauseFirst = 50;
constexpr Millis kPauseMost = 1'000;
constexpr auto kDeadline = std::chrono::seconds(10);
constexpr Millis kRecheck = 500;  // Rows whose wake was missed are found by then.

}  // namespace

ReportLoop::ReportLoop(std::shared_ptr<grpc::Channel> channel, AttemptTable& attempts,
                       std::function<void()> on_verdicts)
    : stub_(v1::WorkerService::NewStub(channel)),
      attempts_(attempts),
      on_verdicts_(std::move(on_verdicts)) {}

ReportLoop::~ReportLoop() { Stop(); }

void ReportLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ReportLoop::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (in_flight_ != nullptr) in_flight_->TryCancel();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void ReportLoop::OnRow(bool urgent) {
  std::lock_guard lock(mutex_);
  const bool news = !rows_ || (urgent && !urgent_);
  rows_ = true;
  urgent_ = urgent_ || urgent;
  if (news) changed_.notify_all();
}

bool ReportLoop::WaitForRows() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(kRecheck), [&] { return rows_ || stopping_; });
  changed_.wait_for(lock, std::chrono::milliseconds(limits::kReportDelayMax),
                    [&] { return urgent_ || stopping_; });
  rows_ = false;
  urgent_ = false;
  return !stopping_;
}

void ReportLoop::Pause(Millis span) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(span), [&] { return stopping_; });
}

void ReportLoop::Run() {
  Millis pause = 0;
  while (WaitForRows()) {
    if (SendOne()) {
      pause = 0;
      continue;
    }
    pause = std::clamp(pause * 2, kPauseFirst, kPauseMost);
    Pause(pause);
    OnRow(true);
  }
}

v1::ReportRequest ReportLoop::Gather() const {
  v1::ReportRequest request;
  request.set_seen_epoch(attempts_.head_epoch());
  request.set_incarnation(attempts_.incarnation());
  size_t rows_left = limits::kReportRowsMax;
  size_t bytes_left = limits::kReportBytesMax;
  for (const auto& attempt : attempts_.All()) {
    if (rows_left == 0 || bytes_left == 0) break;
    std::vector<SpoolRow> rows = attempt->spool().Pending(rows_left, bytes_left);
    if (rows.empty()) continue;
    v1::RowBatch* batch = request.add_batches();
    ToWire(attempt->fence().attempt, batch->mutable_attempt());
    batch->set_rank(attempt->fence().rank);
    for (const SpoolRow& row : rows) {
      ToWire(row, batch->add_rows());
      if (row.with_checkpoint) {
        v1::SavedRow* saved = request.add_saved();
        ToWire(attempt->fence(), saved->mutable_fence());
        saved->set_seq(row.seq);
      }
      bytes_left -= std::min(bytes_left, row.metrics.size() + 64);
    }
    rows_left -= std::min(rows_left, rows.size());
  }
  return request;
}

// False: try again after a pause.
bool ReportLoop::SendOne() {
  v1::ReportRequest request = Gather();
  if (request.batches().empty()) return true;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return true;
    in_flight_ = &context;
  }
  v1::ReportReply reply;
  ReachFailpoint("worker.report.before_send");
  grpc::Status status = stub_->Report(&context, request, &reply);
  {
    std::lock_guard lock(mutex_);
    in_flight_ = nullptr;
  }
  if (!status.ok()) {
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
      RT_LOG(kWarning) << "report: " << EscapeControl(status.error_message());
    }
    return false;
  }
  ReachFailpoint("worker.report.after_send");
  for (const v1::Verdict& verdict : reply.verdicts()) {
    auto attempt = attempts_.Find(FromWire(verdict.fence()));
    if (attempt == nullptr) continue;
    attempt->OnVerdict({.acked_seq = verdict.acked_seq(),
                        .stop = verdict.stop(),
                        .stop_seq = verdict.stop_seq(),
                        .reason = verdict.reason(),
                        .stale = verdict.stale(),
                        .suspend = verdict.pause()});
    if (attempt->spool().HasPending()) OnRow(false);
  }
  on_verdicts_();
  return true;
}

}  // namespace rt::worker
