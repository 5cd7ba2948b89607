// The calls to the head that trials and drivers cause. Thread-safe. Those of the worker itself go
// over the control channel. The calls of drivers, which the head may hold, have a channel of their
// own: a connection carries a bounded number of calls, and Sync must not wait for one to end.
#pragma once

#include <grpcpp/channel.h>

#include <memory>

#include "rt/v1/worker.grpc.pb.h"
#include "worker/loop/kept_outputs.h"
#include "worker/session/head_calls.h"
#include "worker/session/live_attempt.h"

namespace rt::worker {

class HeadLink : public HeadCalls, public OutputCalls {
 public:
  // The two channels must not share a connection (MakeChannel(…, bulk = true)).
  HeadLink(std::shared_ptr<grpc::Channel> control, std::shared_ptr<grpc::Channel> drivers,
           const AttemptTable& attempts);
  absl::StatusOr<uint64_t> CommitCheckpoint(const Fence& fence, const SpoolRow& row,
                                            const SafeCheckpoint& safe) override;
  absl::StatusOr<ReplicaDuty> RenewReplica(const ReplicaQuestion& question) override;
  absl::Status KeepOutputs(const Fence& fence, const SentOutputs& outputs) override;
  void DriverCall(const Fence& fence, std::string json,
                  std::function<void(absl::StatusOr<std::string>)> done) override;

 private:
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  std::unique_ptr<v1::WorkerService::Stub> drivers_;
  const AttemptTable& attempts_;
};

}  // namespace rt::worker
