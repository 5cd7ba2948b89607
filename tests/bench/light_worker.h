// A worker without processes: the production worker core and the real wire (mTLS, its own
// certificate), and programs that end at once or only report. Many fit into one process, so that a
// head can be measured with hundreds of nodes on one machine.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/rpc/identity.h"
#include "rt/v1/worker.grpc.pb.h"
#include "worker/core/worker_core.h"

namespace rt::bench {

struct LightWorkerOptions {
  std::string head;  // host:port
  Credentials credentials;
  std::string cluster_id;
  std::string name;
  int64_t slots = 4;
  bool reports = false;  // Its programs run on and report once a second; else they end at once.
};

class LightWorker {
 public:
  explicit LightWorker(LightWorkerOptions options);
  void Start();
  void Stop();  // Nothing new is called; what is open ends within a hold.
  bool is_idle();
  // Once a second: one row of every program that runs.
  void Report();

  uint64_t syncs() const { return syncs_; }
  uint64_t started() const { return started_; }
  uint64_t acked_rows() const { return acked_rows_; }
  // How long after its hold a Sync that nothing ended before was answered; milliseconds.
  std::vector<double> TakeLatencies();

 private:
  struct Call;
  struct Rows;
  void Feed(const worker::WorkerInput& input);
  void SendIfDue();
  void OnReply(const std::shared_ptr<Call>& call, const grpc::Status& status);
  void OnReported(const std::shared_ptr<Rows>& rows, const grpc::Status& status);

  const LightWorkerOptions options_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  std::mutex mutex_;
  bool stopping_ = false;
  int open_ = 0;  // Calls.
  int syncs_open_ = 0;
  bool dirty_ = true;
  worker::WorkerState state_;
  uint64_t next_seq_ = 1, taken_seq_ = 0, seen_epoch_ = 0, seen_version_ = 0;
  std::map<Fence, uint64_t> running_;  // Rows sent so far.
  std::vector<double> latencies_;
  std::atomic<uint64_t> syncs_{0}, started_{0}, acked_rows_{0};
};

}  // namespace rt::bench
