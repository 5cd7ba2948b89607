#include "worker/link/peer_members.h"

#include <chrono>

#include "common/base/limits.h"
#include "common/rpc/channel.h"
#include "common/run/clock.h"
#include "rt/v1/worker.grpc.pb.h"

namespace rt::worker {
namespace {
constexpr auto kAnswerMax = std::chrono::seconds(2);
}  // namespace

absl::Status PeerMembers::Check(uint64_t node) {
  const Millis now = SteadyClock();
  {
    std::lock_guard lock(mutex_);
    const auto found = answers_.find(node);
    if (found != answers_.end() && now - found->second.at < limits::kPeerMemberFor)
      return found->second.status;
  }
  const absl::Status status = Ask(node);
  std::lock_guard lock(mutex_);
  if (answers_.size() >= limits::kPeersRemembered) answers_.clear();
  answers_[node] = {status, now};
  return status;
}

absl::Status PeerMembers::Ask(uint64_t node) const {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerMax);
  v1::CheckMemberRequest request;
  request.set_node(node);
  v1::CheckMemberReply reply;
  const grpc::Status asked =
      v1::WorkerService::NewStub(head_)->CheckMember(&context, request, &reply);
  if (!asked.ok() || !reply.gone()) return absl::OkStatus();
  return absl::PermissionDeniedError("node " + std::to_string(node) + " has left the cluster");
}

}  // namespace rt::worker
