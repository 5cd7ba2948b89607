#include "worker/session/barriers.h"

#include <algorithm>

#include "common/base/limits.h"
#include "common/run/clock.h"
#include "worker/session/socket_limits.h"

namespace rt::worker {
namespace {

uint32_t NumberIn(const LaunchBody& body, const char* name, uint32_t otherwise) {
  const auto found = body.env.find(name);
  if (found == body.env.end() || found->second.empty()) return otherwise;
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

uint64_t Barriers::PassedIn(const Group& group) {
  if (!group.leads) return group.learnt.passed;
  if (group.ranks.size() < group.world_size) return 0;
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
    if (one.ended_at != 0 && now - one.ended_at >= limits::kBarrierEndGrace)
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

Barriers::Group& Barriers::GroupOf(const LaunchBody& body, Millis now) {
  Group& group = groups_[body.fence.attempt];
  group.world_size = body.world_size;
  group.ranks_here = NumberIn(body, "LOCAL_WORLD_SIZE", body.world_size);
  group.leads = NumberIn(body, "GROUP_RANK", 0) == 0;
  group.leader = body.rank0_node;
  group.used_at = now;
  return group;
}

// From then on rank 0's node can tell the others where this rank is.
void Barriers::NoteHello(const LaunchBody& body) {
  if (body.world_size < 2) return;
  const Millis now = SteadyClock();
  std::lock_guard lock(mutex_);
  Group& group = GroupOf(body, now);
  if (!group.ranks.try_emplace(body.fence.rank).second) return;
  if (!group.has_news) group.news_at = now;
  group.has_news = true;
}

void Barriers::Arrive(const LaunchBody& body, uint64_t number) {
  Replies replies;
  bool asks = false;
  const Millis now = SteadyClock();
  {
    std::lock_guard lock(mutex_);
    Group& group = GroupOf(body, now);
    Rank& rank = group.ranks[body.fence.rank];
    rank = {.number = std::max(rank.number, number)};
    if (!group.has_news) group.news_at = now;
    group.has_news = true;
    asks = !group.leads && PassedHere(group) > group.learnt.passed;
    Settle(group, now, replies);
  }
  for (const auto& reply : replies) reply();
  if (asks) events_.on_question();
}

void Barriers::NoteEnd(const Fence& fence, Millis now) {
  std::lock_guard lock(mutex_);
  const auto found = groups_.find(fence.attempt);
  if (found == groups_.end()) return;
  Rank& rank = found->second.ranks[fence.rank];
  rank.node = 0;
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
  Replies replies;
  bool passed = false;
  {
    std::lock_guard lock(mutex_);
    const bool is_known = groups_.contains(question.attempt);
    if (!is_known && groups_.size() >= limits::kBarrierGroupsMax) {
      replies.emplace_back([reply = std::move(reply)] { reply({}); });
    } else {
      Group& group = groups_[question.attempt];
      if (!is_known) group.world_size = question.world_size;
      group.used_at = now;
      const uint64_t before = PassedIn(group);
      for (const RankArrival& one : question.ranks) {
        if (one.rank >= group.world_size) continue;
        const auto known = group.ranks.find(one.rank);
        if (known != group.ranks.end() && known->second.node == 0) continue;  // It is here.
        Rank& rank = group.ranks[one.rank];
        rank.node = asking_node;
        rank.number = std::max(rank.number, one.number);
        if (!one.has_ended) rank.ended_at = 0;
        else if (rank.ended_at == 0) rank.ended_at = now;
      }
      passed = PassedIn(group) > before;
      group.held.push_back({question.number, now + limits::kBarrierHold, std::move(reply)});
      Settle(group, now, replies);
    }
  }
  for (const auto& one : replies) one();
  if (passed) events_.on_passed();
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
