// Sends the spooled rows of all attempts to the head, in batches, one call in flight, and hands its
// verdicts back. A row waits for company at most limits::kReportDelayMax. Owns one thread.
#pragma once

#include <grpcpp/channel.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "rt/v1/worker.grpc.pb.h"
#include "worker/session/live_attempt.h"

namespace rt::worker {

class ReportLoop {
 public:
  // `on_verdicts` wakes whoever waits for them.
  ReportLoop(std::shared_ptr<grpc::Channel> channel, AttemptTable& attempts,
             std::function<void()> on_verdicts);
  ~ReportLoop();
  void Start();
  void Stop();
  void OnRow(bool urgent);

 private:
  void Run();
  bool WaitForRows();
  v1::ReportRequest Gather() const;
  bool SendOne();
  void Pause(Millis span);

  std::unique_ptr<v1::WorkerService::Stub> stub_;
  AttemptTable& attempts_;
  std::function<void()> on_verdicts_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool rows_ = true;  // After a start the spools may hold some.
  bool urgent_ = false;
  grpc::ClientContext* in_flight_ = nullptr;
};

}  // namespace rt::worker
