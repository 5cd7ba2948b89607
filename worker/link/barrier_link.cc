#include "worker/link/barrier_link.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "common/run/clock.h"
#include "rt/v1/checkpoint.grpc.pb.h"
#include "worker/session/socket_limits.h"

namespace rt::worker {
namespace {

constexpr Millis kAnswerWithin = limits::kBarrierHold + 5'000;
constexpr size_t kPeersMax = 1'024;

RankArrival FromWire(const v1::RankArrival& rank) {
  return {rank.rank(), rank.number(), rank.ended(), rank.node(), rank.here()};
}
void FillArrival(const RankArrival& one, v1::RankArrival* rank) {
  rank->set_rank(one.rank);
  rank->set_number(one.number);
  rank->set_ended(one.has_ended);
  rank->set_node(one.node);
  rank->set_here(one.is_here);
}

}  // namespace

std::optional<BarrierQuestion> QuestionFrom(const v1::ArriveRequest& request) {
  const std::optional<Fence> first = ParseFence(request.attempt() + ".r0");
  const auto ranks = static_cast<uint32_t>(request.ranks_size());
  if (!first || request.world_size() < 2 || request.world_size() > limits::kBundlesMax ||
      ranks > request.world_size())
    return std::nullopt;
  BarrierQuestion question{first->attempt, 0, request.world_size(), request.number(), {}};
  for (const v1::RankArrival& rank : request.ranks()) question.ranks.push_back(FromWire(rank));
  return question;
}

void ToWire(const BarrierState& state, v1::ArriveReply& reply) {
  reply.set_passed(state.passed);
  for (const RankArrival& one : state.missing) FillArrival(one, reply.add_missing());
  for (uint32_t rank : state.ended) reply.add_ended(rank);
}

struct BarrierLink::Call {
  BarrierQuestion question;
  grpc::ClientContext context;
  v1::ArriveRequest request;
  v1::ArriveReply reply;
  std::unique_ptr<v1::PeerService::Stub> stub;
};

BarrierLink::BarrierLink(Barriers& barriers, FindPeer find_peer)
    : barriers_(barriers), find_peer_(std::move(find_peer)) {}

BarrierLink::~BarrierLink() { Stop(); }

void BarrierLink::Start() {
  thread_ = std::thread([this] { Run(); });
}

void BarrierLink::Stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  for (Call* call : calls_) call->context.TryCancel();
  changed_.notify_all();
  changed_.wait(lock, [this] { return calls_.empty(); });
  lock.unlock();
  if (thread_.joinable()) thread_.join();
}

void BarrierLink::Wake() {
  std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void BarrierLink::Run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || woken_; });
      if (stopping_) return;
      woken_ = false;
    }
    for (const BarrierQuestion& question : barriers_.TakeQuestions(SteadyClock())) Ask(question);
  }
}

std::shared_ptr<grpc::Channel> BarrierLink::PeerOf(uint64_t node) {
  {
    std::lock_guard lock(mutex_);
    const auto known = peers_.find(node);
    if (known != peers_.end()) return known->second;
  }
  auto found = find_peer_(node);
  if (!found.ok()) {
    NoteSilent(node, MessageOf(found.status()));
    return nullptr;
  }
  std::lock_guard lock(mutex_);
  if (peers_.size() >= kPeersMax) peers_.clear();
  peers_[node] = *found;
  return *found;
}

void BarrierLink::NoteSilent(uint64_t node, const std::string& why) {
  std::lock_guard lock(mutex_);
  if (silent_.size() >= kPeersMax) silent_.clear();
  if (!silent_.insert(node).second) return;
  RT_LOG(kWarning) << "node " << node << ", where ranks of this node's attempts meet, does not "
                   << "answer: " << EscapeControl(why);
}

void BarrierLink::Ask(const BarrierQuestion& question) {
  auto channel = PeerOf(question.node);
  if (channel == nullptr) {
    return barriers_.TakeAnswer(question.attempt, std::nullopt, SteadyClock());
  }
  auto call = std::make_unique<Call>();
  call->question = question;
  call->request.set_attempt(rt::ToString(question.attempt));
  call->request.set_world_size(question.world_size);
  call->request.set_number(question.number);
  for (const RankArrival& one : question.ranks) FillArrival(one, call->request.add_ranks());
  call->context.set_deadline(std::chrono::system_clock::now() +
                             std::chrono::milliseconds(kAnswerWithin));
  call->stub = v1::PeerService::NewStub(channel);
  Call* running = call.release();
  {
    std::lock_guard lock(mutex_);
    if (stopping_) {
      delete running;
      return;
    }
    calls_.insert(running);
  }
  running->stub->async()->Arrive(&running->context, &running->request, &running->reply,
                                 [this, running](const grpc::Status& status) {
                                   if (!status.ok())
                                     NoteSilent(running->question.node, status.error_message());
                                   Done(running, status.ok());
                                 });
}

void BarrierLink::Done(Call* call, bool ok) {
  std::optional<BarrierState> state;
  if (ok) {
    state.emplace();
    state->passed = call->reply.passed();
    for (const v1::RankArrival& rank : call->reply.missing())
      state->missing.push_back(FromWire(rank));
    for (uint32_t rank : call->reply.ended()) state->ended.push_back(rank);
  }
  barriers_.TakeAnswer(call->question.attempt, state, SteadyClock());
  std::lock_guard lock(mutex_);
  if (ok) silent_.erase(call->question.node);
  else peers_.erase(call->question.node);  // It may serve elsewhere now.
  calls_.erase(call);
  delete call;
  changed_.notify_all();
}

}  // namespace rt::worker
