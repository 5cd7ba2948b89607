#include "worker/session/barriers.h"

#include <algorithm>

#include "common/base/limits.h"
#include "worker/session/socket_limits.h"

namespace rt::worker {
namespace {

uint32_t NumberIn(const LaunchSpec& launch, const char* name, uint32_t otherwise) {
  const auto found = launch.env.find(name);
  if (found == launch.env.end() || found->second.empty()) return otherwise;
  return static_cast<uint32_t>(std::strtoul(found->second.c_str(), nullptr, 10));
}

}  // namespace

Json BarrierMessage(const char* op, uint64_t number, const BarrierState& state,
                    const std::vector<RankStack>& stacks) {
  Json message = Json::MakeObject({{"op", op}, {"number", number}});
  if (state.passed >= number) return message;
  Json missing = Json::MakeArray(), ended = Json::MakeArray();
  for (const RankArrival& one : state.missing) {
    Json rank = Json::MakeObject({{"rank", one.rank}, {"arrived", one.number}});
    if (one.node != 0) rank.Set("node", one.node);
    for (const RankStack& stack : stacks)
      if (stack.rank == one.rank) rank.Set("stack", stack.text);
    missing.Append(std::move(rank));
  }
  for (uint32_t rank : state.ended) ended.Append(Json::MakeObject({{"rank", rank}}));
  message.Set("missing", std::move(missing));
  message.Set("ended", std::move(ended));
  return message;
}

bool Barriers::MayAsk(const Group& group, uint64_t node) {
  const std::vector<NodeId>& all = group.rank_nodes;
  if (!group.leads) return false;
  return all.empty() || std::find(all.begin(), all.end(), NodeId{node}) != all.end();
}

// Rank 0 is on this node, so that nobody else speaks for it.
bool Barriers::SpeaksFor(const Group& group, uint64_t node, uint32_t rank) {
  if (rank == 0 || rank >= group.world_size) return false;
  if (group.rank_nodes.empty()) return true;
  const uint64_t theirs = rank < group.rank_nodes.size() ? group.rank_nodes[rank].value : 0;
  return theirs == node && theirs != group.leader;
}

void Barriers::TakeRanks(Group& group, const BarrierQuestion& question, uint64_t node, Millis now) {
  for (const RankArrival& one : question.ranks) {
    const auto known = group.ranks.find(one.rank);
    const bool is_here = known != group.ranks.end() && known->second.node == 0;
    if (is_here || !SpeaksFor(group, node, one.rank)) continue;
    Rank& rank = group.ranks[one.rank];
    // While the ranks' nodes are not known, the newest claim counts by itself.
    if (rank.node != node) rank = {.node = node};
    rank.number = std::max(rank.number, one.number);
    if (!one.has_ended) rank.ended_at = 0;
    else if (rank.ended_at == 0) rank.ended_at = now;
  }
}

// What other nodes claimed before the ranks here had arrived, and must not have.
void Barriers::DropForeign(Group& group) {
  std::erase_if(group.ranks, [&](const auto& one) {
    const uint64_t node = one.second.node;
    return node != 0 && !(group.leads && SpeaksFor(group, node, one.first));
  });
}

uint64_t Barriers::PassedIn(const Group& group) {
  return group.leads ? group.passed : group.learnt.passed;
}

// How far all ranks have come. A rank here must be among them: only then is known who they are.
uint64_t Barriers::LeastIn(const Group& group) {
  if (group.ranks_here == 0 || group.ranks.size() < group.world_size) return 0;
  uint64_t least = UINT64_MAX;
  for (const auto& [rank, one] : group.ranks) least = std::min(least, one.number);
  return least;
}

bool Barriers::RunsHere(const Group& group) {
  return std::any_of(group.ranks.begin(), group.ranks.end(), [](const auto& rank) {
    return rank.second.node == 0 && rank.second.ended_at == 0;
  });
}

uint64_t Barriers::PassedHere(const Group& group) {
  uint64_t least = UINT64_MAX;
  uint32_t count = 0;
  for (const auto& [rank, one] : group.ranks) {
    if (one.node != 0) continue;
    least = std::min(least, one.number);
    ++count;
  }
  return count < group.ranks_here || count == 0 ? 0 : least;
}

BarrierState Barriers::StateIn(const Group& group, uint64_t number, Millis now) {
  BarrierState state{.passed = PassedIn(group)};
  if (state.passed >= number) return state;
  if (!group.leads) {
    state.missing = group.learnt.missing;
    state.ended = group.learnt.ended;
    return state;
  }
  for (uint32_t rank = 0; rank < group.world_size; ++rank) {
    const auto found = group.ranks.find(rank);
    const Rank one = found == group.ranks.end() ? Rank{} : found->second;
    if (one.number >= number) continue;
    const bool is_here = found != group.ranks.end() && one.node == 0;
    state.missing.push_back({rank, one.number, one.ended_at != 0, one.node, is_here});
    const bool is_believed = group.ranks_here != 0 || is_here;
    if (is_believed && one.ended_at != 0 && now - one.ended_at >= limits::kBarrierEndGrace)
      state.ended.push_back(rank);
  }
  return state;
}

// Answers whoever may know now.
void Barriers::Settle(Group& group, Millis now, Replies& replies) {
  std::erase_if(group.held, [&](const Held& held) {
    BarrierState state = StateIn(group, held.number, now);
    const bool is_due = state.passed >= held.number || !state.ended.empty() || now >= held.until;
    if (is_due)
      replies.emplace_back([reply = held.reply, state = std::move(state)] { reply(state); });
    return is_due;
  });
}

Barriers::Group& Barriers::GroupOf(const LaunchSpec& launch, Millis now) {
  Group& group = groups_[launch.fence.attempt];
  group.world_size = launch.world_size;
  group.ranks_here = NumberIn(launch, "LOCAL_WORLD_SIZE", launch.world_size);
  group.leads = NumberIn(launch, "GROUP_RANK", 0) == 0;
  group.leader = launch.rank0_node;
  group.rank_nodes = launch.rank_nodes;
  group.used_at = now;
  DropForeign(group);
  return group;
}

// Keeps what is newly passed, then answers whoever may know now. Whether a barrier was passed.
bool Barriers::Advance(const AttemptId& attempt, Millis now) {
  uint64_t passed = 0;
  {
    std::lock_guard lock(mutex_);
    const auto found = groups_.find(attempt);
    if (found == groups_.end()) return false;
    const uint64_t least = LeastIn(found->second);
    if (found->second.leads && least > found->second.passed) passed = least;
  }
  if (passed != 0) events_.keep(attempt, passed);
  Replies replies;
  {
    std::lock_guard lock(mutex_);
    const auto found = groups_.find(attempt);
    if (found == groups_.end()) return false;
    found->second.passed = std::max(found->second.passed, passed);
    Settle(found->second, now, replies);
  }
  for (const auto& reply : replies) reply();
  return passed != 0;
}

// What the daemon before this one kept, of an attempt that this one has not heard of yet.
uint64_t Barriers::KeptOfUnknown(const AttemptId& attempt) const {
  {
    std::lock_guard lock(mutex_);
    if (groups_.contains(attempt)) return 0;
  }
  return events_.kept(attempt);
}

// From then on rank 0's node can tell the others where this rank is.
void Barriers::NoteHello(const LaunchSpec& launch, Millis now) {
  if (launch.world_size < 2) return;
  const uint64_t kept = KeptOfUnknown(launch.fence.attempt);
  std::lock_guard lock(mutex_);
  Group& group = GroupOf(launch, now);
  group.passed = std::max(group.passed, kept);
  if (!group.ranks.try_emplace(launch.fence.rank).second) return;
  if (!group.has_news) group.news_at = now;
  group.has_news = true;
}

void Barriers::Arrive(const LaunchSpec& launch, uint64_t number, Millis now) {
  const uint64_t kept = KeptOfUnknown(launch.fence.attempt);
  bool asks = false;
  {
    std::lock_guard lock(mutex_);
    Group& group = GroupOf(launch, now);
    group.passed = std::max(group.passed, kept);
    Rank& rank = group.ranks[launch.fence.rank];
    rank = {.number = std::max(rank.node == 0 ? rank.number : 0, number)};
    if (!group.has_news) group.news_at = now;
    group.has_news = true;
    asks = !group.leads && PassedHere(group) > group.learnt.passed;
  }
  Advance(launch.fence.attempt, now);
  if (asks) events_.on_question();
}

void Barriers::NoteEnd(const Fence& fence, Millis now) {
  std::lock_guard lock(mutex_);
  const auto found = groups_.find(fence.attempt);
  if (found == groups_.end()) return;
  Rank& rank = found->second.ranks[fence.rank];
  if (rank.node != 0) rank = {};
  if (rank.ended_at == 0) rank.ended_at = now;
  found->second.used_at = now;
  if (!found->second.has_news) found->second.news_at = now;
  found->second.has_news = true;
}

BarrierState Barriers::StateOf(const AttemptId& attempt, uint64_t number, Millis now) const {
  std::lock_guard lock(mutex_);
  const auto found = groups_.find(attempt);
  return found == groups_.end() ? BarrierState{} : StateIn(found->second, number, now);
}

void Barriers::Answer(const BarrierQuestion& question, uint64_t asking_node, Millis now,
                      std::function<void(const BarrierState&)> reply) {
  const uint64_t kept = KeptOfUnknown(question.attempt);
  {
    std::lock_guard lock(mutex_);
    const auto found = groups_.find(question.attempt);
    const bool is_known = found != groups_.end();
    const bool may_ask =
        is_known ? MayAsk(found->second, asking_node) : groups_.size() < limits::kBarrierGroupsMax;
    if (may_ask) {
      Group& group = groups_[question.attempt];
      if (group.ranks_here == 0) group.world_size = std::max(group.world_size, question.world_size);
      group.passed = std::max(group.passed, kept);
      group.used_at = now;
      TakeRanks(group, question, asking_node, now);
      group.held.push_back({question.number, now + limits::kBarrierHold, std::move(reply)});
      reply = nullptr;
    }
  }
  if (reply != nullptr) return reply({});
  if (Advance(question.attempt, now)) events_.on_passed();
}

void Barriers::Tick(Millis now) {
  Replies replies;
  bool asks = false;
  {
    std::lock_guard lock(mutex_);
    for (auto& [attempt, group] : groups_) {
      Settle(group, now, replies);
      asks = asks || (!group.leads && !group.is_asking);
    }
    // A rank that has ended is missed by the others, here and elsewhere, for as long as they run.
    std::erase_if(groups_, [&](const auto& one) {
      return !RunsHere(one.second) && now - one.second.used_at > limits::kBarrierUnusedMax;
    });
  }
  for (const auto& reply : replies) reply();
  if (asks) events_.on_question();
}

std::vector<BarrierQuestion> Barriers::TakeQuestions(Millis now) {
  std::vector<BarrierQuestion> questions;
  std::lock_guard lock(mutex_);
  for (auto& [attempt, group] : groups_) {
    if (group.leads || group.is_asking || now < group.ask_after) continue;
    const uint64_t here = PassedHere(group);
    const bool waits = here > group.learnt.passed;
    // Who is missing here is told to rank 0's node as well, so that it can be named anywhere.
    const bool tells = group.has_news && now - group.news_at >= limits::kBarrierTellAfter;
    if (!waits && !tells) continue;
    BarrierQuestion question{attempt, group.leader, group.world_size, 0, {}};
    for (const auto& [rank, one] : group.ranks) {
      if (one.node != 0) continue;
      question.ranks.push_back({rank, one.number, one.ended_at != 0});
      question.number = std::max(question.number, one.number);
    }
    if (waits) question.number = here;
    group.is_asking = true;
    group.has_news = false;
    group.asked = question.number;
    questions.push_back(std::move(question));
  }
  return questions;
}

void Barriers::TakeAnswer(const AttemptId& attempt, const std::optional<BarrierState>& state,
                          Millis now) {
  {
    std::lock_guard lock(mutex_);
    const auto found = groups_.find(attempt);
    if (found == groups_.end()) return;
    Group& group = found->second;
    group.is_asking = false;
    if (!state) {
      group.ask_after = now + limits::kBarrierAskAgain;
      return;
    }
    const uint64_t passed = std::max(group.learnt.passed, state->passed);
    group.learnt = *state;
    group.learnt.passed = passed;
    // "Here" was rank 0's node, and what was another one may be this.
    for (RankArrival& one : group.learnt.missing) {
      const bool is_here = group.ranks.contains(one.rank);
      one.node = is_here ? 0 : one.is_here ? group.leader : one.node;
      one.is_here = is_here;
    }
    // It has an answer for an older barrier, or it restarted and knows nothing yet.
    if (passed < group.asked && state->missing.empty())
      group.ask_after = now + limits::kBarrierAskAgain;
  }
  events_.on_passed();
  events_.on_question();
}

}  // namespace rt::worker
