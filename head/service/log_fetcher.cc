#include "head/service/log_fetcher.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <set>
#include <vector>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/clock.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

constexpr Millis kLookEvery = 250;
constexpr Millis kOneLogMax = 10'000;  // Without a byte: the node is gone, or has too much to do.
constexpr int64_t kLinesMax = 200'000;

struct Wishes {
  std::map<NodeId, std::vector<Fence>> logs;  // Of ended attempts, the newest first.
  std::set<NodeId> leaving;                   // Nodes that are released once these are fetched.
};

// Most calls find that no node is about to go, and look at nothing else.
Wishes WishesOf(const Core& core) {
  Wishes wishes;
  for (const auto& [id, since] : core.soft.leaving)
    if (!core.soft.logs_fetched.contains(id)) wishes.leaving.insert(id);
  for (NodeId id : wishes.leaving) wishes.logs[id];
  for (const auto& [id, node] : core.world.state.nodes)
    if (node.machine != 0 && node.draining && node.ready && node.counts()) wishes.logs[id];
  if (wishes.logs.empty()) return wishes;
  std::map<NodeId, std::vector<std::pair<Millis, Fence>>> ended;
  const auto visit = [&](const Owner& owner) {
    for (const Attempt& attempt : FindRuns(core.world.state, owner)->attempts) {
      if (attempt.ended_at == 0) continue;
      for (const Member& member : attempt.members) {
        const bool has_run = member.rank < attempt.pids.size() && attempt.pids[member.rank] != 0;
        if (has_run && wishes.logs.contains(member.node))
          ended[member.node].emplace_back(
              attempt.ended_at, Fence{{owner, attempt.number, attempt.generation}, member.rank});
      }
    }
  };
  for (const OwnerPolicy* policy : OwnerPolicies()) policy->each(core.world.state, visit);
  for (auto& [id, found] : ended) {
    std::sort(found.begin(), found.end(), std::greater<>());
    if (found.size() > limits::kFetchedLogsOfNodeMax) found.resize(limits::kFetchedLogsOfNodeMax);
    for (const auto& [at, fence] : found) wishes.logs[id].push_back(fence);
  }
  return wishes;
}

// The end of what a relay brings. The bytes before it are dropped as they come.
class Tail {
 public:
  void Add(const LogPiece& piece) {
    if (log_.bytes.empty()) log_.offset = piece.offset;
    log_.bytes += piece.data;
    if (log_.bytes.size() > 2 * limits::kFetchedLogBytesMax) Cut();
  }
  FetchedLog Take() {
    Cut();
    return std::move(log_);
  }

 private:
  void Cut() {
    if (log_.bytes.size() <= limits::kFetchedLogBytesMax) return;
    const size_t dropped = log_.bytes.size() - limits::kFetchedLogBytesMax;
    log_.bytes.erase(0, dropped);
    log_.offset += dropped;
  }
  FetchedLog log_;
};

}  // namespace

LogFetcher::LogFetcher(HeadLoop& loop, LogHub& hub, FetchedLogs& logs)
    : loop_(loop), hub_(hub), logs_(logs), thread_([this] { Run(); }) {}

LogFetcher::~LogFetcher() {
  {
    std::lock_guard lock(bell_->mutex);
    bell_->stopping = true;
  }
  bell_->rung.notify_all();
  thread_.join();
}

bool LogFetcher::Sleep(Millis span) {
  std::unique_lock lock(bell_->mutex);
  bell_->rung.wait_for(lock, std::chrono::milliseconds(span), [this] { return bell_->stopping; });
  return !bell_->stopping;
}

void LogFetcher::Run() {
  while (Sleep(kLookEvery)) {
    Wishes wishes;
    std::promise<absl::Status> durable;
    loop_.Query([&](const Core& core) { wishes = WishesOf(core); },
                [&](absl::Status status) { durable.set_value(std::move(status)); });
    if (!durable.get_future().get().ok()) continue;
    for (const auto& [node, fences] : wishes.logs) {
      const bool is_done = FetchAll(node, fences);
      if (is_done && wishes.leaving.contains(node))
        loop_.Post(input::NodeLogsFetched{node}, [](const absl::Status&, const Answer&) {});
    }
  }
}

// False: the node did not answer in time, or the head is ending.
bool LogFetcher::FetchAll(NodeId node, const std::vector<Fence>& fences) {
  for (const Fence& fence : fences) {
    if (logs_.IsDone(fence)) continue;
    std::map<std::string, FetchedLog> streams;
    for (const char* stream : {"stdout", "stderr"}) {
      std::optional<FetchedLog> log = Fetch(node, fence, stream);
      if (!log.has_value()) return false;
      streams[stream] = *std::move(log);
    }
    if (const absl::Status kept = logs_.Keep(fence, streams); !kept.ok()) {
      RT_LOG(kWarning) << "the logs of " << rt::ToString(fence)
                       << " cannot be kept: " << MessageOf(kept);
    }
  }
  return true;
}

std::optional<FetchedLog> LogFetcher::Fetch(NodeId node, const Fence& fence, const char* stream) {
  const LogQuery query{fence, stream, 0, kLinesMax, false, false};
  const std::pair<uint64_t, std::shared_ptr<LogRelay>> opened = hub_.Add(node, query);
  const std::shared_ptr<LogRelay>& relay = opened.second;
  if (relay == nullptr) return std::nullopt;
  relay->set_ready([bell = bell_] {
    std::lock_guard lock(bell->mutex);
    bell->rung.notify_all();
  });
  loop_.Wake(node);
  Tail tail;
  bool is_whole = false, is_open = true;
  while (is_open) {
    {
      std::unique_lock lock(bell_->mutex);
      const bool has_news = bell_->rung.wait_for(
          lock, std::chrono::milliseconds(kOneLogMax), [this, relay = relay.get()] {
            return bell_->stopping || relay->HasPieces() || relay->drained();
          });
      is_open = has_news && !bell_->stopping;
    }
    while (std::optional<LogPiece> piece = relay->Pop()) {
      tail.Add(*piece);
      is_whole = is_whole || piece->end || !piece->error.empty();
    }
    if (is_whole || relay->drained()) is_open = false;
  }
  hub_.Remove(opened.first);
  relay->Abandon();
  return is_whole ? std::optional(tail.Take()) : std::nullopt;
}

}  // namespace rt
