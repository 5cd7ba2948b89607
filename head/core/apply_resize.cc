#include "head/core/apply_resize.h"

#include "common/base/check.h"
#include "head/core/apply_runs.h"
#include "head/core/index.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

// It has returned its capacity, which its request tells.
void SetRanks(World& world, const Owner& owner, uint32_t ranks) {
  Runs& runs = *FindRuns(world.state, owner);
  Attempt& last = runs.attempts.back();
  last.ranks = RanksOf(world, owner, last);
  runs.ranks = ranks;
  PolicyOf(owner).apply_size(world, owner, ranks);
}

}  // namespace

void RequestResize(World& world, const event::AttemptResizeRequested& e, Millis at) {
  Attempt& live = LiveOf(world, e.attempt);
  RT_CHECK(!live.resize.is_pending() && !live.is_backfilled());
  live.resize.members = e.members;
  live.resize.requested_at = at;
  live.resize.save_by = e.save_by;
  Claim(world, e.attempt, live);
}

void ForceResize(World& world, const event::AttemptResizeForced& e) {
  LiveOf(world, e.attempt).resize.forced = true;
}

void GiveUpResize(World& world, const event::AttemptResizeGivenUp& e) {
  Attempt& live = LiveOf(world, e.attempt);
  RT_CHECK(live.resize.is_pending());
  ReleaseClaim(world, e.attempt, live);
  live.resize.members.clear();
  live.resize.save_by = 0;
}

void ApplyResized(World& world, const event::AttemptResized& e, Millis at) {
  const Owner& owner = e.attempt.owner;
  Runs& runs = *FindRuns(world.state, owner);
  RT_CHECK(runs.live() != nullptr);
  Attempt& before = *runs.live();
  RT_CHECK(before.number == e.attempt.number && before.generation < e.attempt.generation);
  RT_CHECK(before.resize.members == e.members);
  Vacate(world, {owner, before.number, before.generation}, before);
  CloseAttempt(before, AttemptOutcome::kResized, at);
  before.resize.members.clear();
  SetRanks(world, owner, static_cast<uint32_t>(e.members.size()));
  Attempt next = NewAttempt(e.attempt, e.members, e.checkpoint, at);
  next.ranks = runs.ranks;
  Occupy(world, e.attempt, next);
  AddAttempt(runs, std::move(next));
  PolicyOf(owner).apply_resized(world, e.attempt, e.checkpoint);
}

void EndResize(World& world, const Owner& owner, Attempt& ended) {
  const auto ranks = static_cast<uint32_t>(ended.resize.members.size());
  const bool shrinks = ranks != 0 && ranks < ended.members.size();
  ended.resize.members.clear();
  const ResourceRequest& request = RequestOf(world, owner);
  if (request.is_elastic()) {  // Wherever the fewest ranks fit, it runs again.
    if (request.ranks != request.ranks_min) SetRanks(world, owner, request.ranks_min);
  } else if (shrinks) {
    SetRanks(world, owner, ranks);
  }
}

}  // namespace rt
