// The calls to the head that trials and drivers cause, over the control channel. Thread-safe.
#pragma once

#include <memory>

#include <grpcpp/channel.h>

#include "rt/v1/worker.grpc.pb.h"
#include "worker/run/head_calls.h"
#include "worker/run/kept_outputs.h"
#include "worker/run/live_attempt.h"

namespace rt::worker {

class HeadLink : public HeadCalls, public OutputCalls {
 public:
  HeadLink(std::shared_ptr<grpc::Channel> channel, const AttemptTable& attempts);
  absl::StatusOr<uint64_t> CommitCheckpoint(const Fence& fence, const SpoolRow& row,
                                            const SafeCheckpoint& safe) override;
  absl::StatusOr<ReplicaDuty> RenewReplica(const ReplicaQuestion& question) override;
  absl::Status KeepOutputs(const Fence& fence, const SentOutputs& outputs) override;
  void DriverCall(const Fence& fence, std::string json,
                  std::function<void(absl::StatusOr<std::string>)> done) override;

 private:
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  const AttemptTable& attempts_;
};

}  // namespace rt::worker
