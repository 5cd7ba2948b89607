#include "worker/link/head_link.h"

#include <chrono>

#include "common/base/limits.h"
#include "common/rpc/channel.h"
#include "worker/link/wire.h"

namespace rt::worker {
namespace {

constexpr auto kCommitDeadline = std::chrono::seconds(15);
// A driver's question may be held by the head; longer waits are asked again.
constexpr auto kDriverDeadline = std::chrono::minutes(5);

struct PendingDriverCall {
  grpc::ClientContext context;
  v1::DriverCallRequest request;
  v1::JsonReply reply;
};

// The driver reads lines of at most kMessageBytesMax.
absl::StatusOr<std::string> AnswerOf(const grpc::Status& status, v1::JsonReply& reply) {
  RT_RETURN_IF_ERROR(FromGrpc(status));
  std::string& answer = *reply.mutable_json();
  if (answer.size() <= limits::kMessageBytesMax) return std::move(answer);
  return absl::ResourceExhaustedError("the answer has " + std::to_string(answer.size()) +
                                      " bytes; at most " +
                                      std::to_string(limits::kMessageBytesMax) + " are taken");
}

}  // namespace

HeadLink::HeadLink(std::shared_ptr<grpc::Channel> control, std::shared_ptr<grpc::Channel> drivers,
                   const AttemptTable& attempts)
    : stub_(v1::WorkerService::NewStub(control)),
      drivers_(v1::WorkerService::NewStub(drivers)),
      attempts_(attempts) {}

absl::StatusOr<uint64_t> HeadLink::CommitCheckpoint(const Fence& fence, const SpoolRow& row,
                                                    const SafeCheckpoint& safe) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCommitDeadline);
  v1::CommitCheckpointRequest request;
  ToWire(fence, request.mutable_fence());
  request.set_manifest(safe.manifest);
  ToWire(row, request.mutable_row());
  request.set_bytes(safe.bytes);
  request.set_held(safe.is_replica);
  request.mutable_peers()->Assign(safe.peers.begin(), safe.peers.end());
  request.set_seen_epoch(attempts_.head_epoch());
  request.set_incarnation(attempts_.incarnation());
  request.set_together(row.collective);
  v1::CommitCheckpointReply reply;
  grpc::Status status = stub_->CommitCheckpoint(&context, request, &reply);
  if (!status.ok()) return FromGrpc(status);
  return reply.checkpoint();
}

absl::StatusOr<ReplicaDuty> HeadLink::RenewReplica(const ReplicaQuestion& question) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCommitDeadline);
  v1::KeepCheckpointRequest request;
  ToWire(question.fence.attempt.owner, request.mutable_owner());
  request.set_manifest(question.manifest);
  request.set_news(static_cast<uint32_t>(question.status));
  request.set_early(question.early);
  request.set_attempt(question.fence.attempt.number);
  request.set_generation(question.fence.attempt.generation);
  request.set_row(question.row);
  request.set_seen_epoch(attempts_.head_epoch());
  request.set_incarnation(attempts_.incarnation());
  v1::KeepCheckpointReply reply;
  grpc::Status status = stub_->KeepCheckpoint(&context, request, &reply);
  if (!status.ok()) return FromGrpc(status);
  return ReplicaDuty{reply.needed(), reply.push(), reply.let_go(), reply.may_come()};
}

absl::Status HeadLink::KeepOutputs(const Fence& fence, const SentOutputs& outputs) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCommitDeadline);
  v1::KeepOutputsRequest request;
  ToWire(fence, request.mutable_fence());
  request.set_seen_epoch(attempts_.head_epoch());
  ToWire(outputs, &request);
  v1::Empty reply;
  const grpc::Status status = stub_->KeepOutputs(&context, request, &reply);
  return status.ok() ? absl::OkStatus() : FromGrpc(status);
}

void HeadLink::DriverCall(const Fence& fence, std::string json,
                          std::function<void(absl::StatusOr<std::string>)> done) {
  auto call = std::make_shared<PendingDriverCall>();
  call->context.set_deadline(std::chrono::system_clock::now() + kDriverDeadline);
  ToWire(fence, call->request.mutable_fence());
  call->request.set_json(std::move(json));
  drivers_->async()->DriverCall(&call->context, &call->request, &call->reply,
                                [call, done = std::move(done)](const grpc::Status& status) mutable {
                                  absl::StatusOr<std::string> answer =
                                      AnswerOf(status, call->reply);
                                  // With its channel, which gRPC's thread must not be the last to
                                  // let go of: whoever hears the answer may end this link.
                                  call.reset();
                                  done(std::move(answer));
                                });
}

}  // namespace rt::worker
