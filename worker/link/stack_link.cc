#include "worker/link/stack_link.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <map>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "rt/v1/checkpoint.grpc.pb.h"
#include "worker/session/socket_limits.h"

namespace rt::worker {
namespace {

constexpr std::chrono::milliseconds kAnswerWithin{limits::kStackWait + 2'000};

}  // namespace

std::optional<std::pair<AttemptId, std::vector<uint32_t>>> RanksFrom(
    const v1::StacksRequest& request) {
  const std::optional<Fence> first = ParseFence(request.attempt() + ".r0");
  if (!first) return std::nullopt;
  std::vector<uint32_t> ranks;
  for (uint32_t rank : request.ranks()) {
    if (ranks.size() == limits::kStackRanksMax) break;
    ranks.push_back(rank);
  }
  return std::pair(first->attempt, std::move(ranks));
}

std::vector<RankStack> StackLink::Read(const AttemptId& attempt,
                                       const std::vector<RankArrival>& missing) {
  std::map<uint64_t, std::vector<uint32_t>> by_node;
  size_t wanted = 0;
  for (const RankArrival& one : missing) {
    if (one.has_ended || wanted == limits::kStackRanksMax) continue;
    by_node[one.node].push_back(one.rank);
    ++wanted;
  }
  std::vector<RankStack> stacks;
  for (const auto& [node, ranks] : by_node)
    for (RankStack& stack :
         node == 0 ? read_here_(attempt, ranks) : ReadThere(node, attempt, ranks))
      stacks.push_back(std::move(stack));
  return stacks;
}

std::vector<RankStack> StackLink::ReadThere(uint64_t node, const AttemptId& attempt,
                                            const std::vector<uint32_t>& ranks) {
  const auto channel = find_peer_(node);
  if (!channel.ok()) return {};
  v1::StacksRequest request;
  v1::StacksReply reply;
  request.set_attempt(rt::ToString(attempt));
  for (uint32_t rank : ranks) request.add_ranks(rank);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerWithin);
  const grpc::Status status = v1::PeerService::NewStub(*channel)->Stacks(&context, request, &reply);
  if (!status.ok()) {
    RT_LOG(kWarning) << rt::ToString(attempt) << ": node " << node
                     << " does not show the stacks of its ranks: "
                     << EscapeControl(status.error_message());
    return {};
  }
  std::vector<RankStack> stacks;
  for (const v1::RankStack& stack : reply.stacks()) {
    if (stacks.size() == limits::kStackRanksMax) break;
    stacks.push_back({stack.rank(), ValidUtf8(stack.text(), limits::kStackBytesMax)});
  }
  return stacks;
}

}  // namespace rt::worker
