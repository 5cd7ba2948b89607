#include "head/core/backfill.h"

#include <algorithm>
#include <vector>

#include "common/base/limits.h"
#include "head/core/owner_policy.h"
#include "head/core/places.h"

namespace rt {
namespace {

constexpr uint32_t kTrialsNeeded = 4;  // Of a search, before its durations count.
constexpr Millis kQuick = 2'000;       // A trial that takes no longer is short.
constexpr Millis kVeryQuick = 100;     // The head's answer takes a good part of it.
constexpr size_t kDepthVeryQuick = 3;  // Attempts behind such a trial; else 1.
constexpr size_t kTailsKept = 4'096;
constexpr Millis kWaitMax = 2 * kQuick;  // Behind a trial, which then is not short.
// A shorter wait beats a move.
constexpr Millis kWaitAccepted = 200;

bool IsQuick(const BackfillState& backfill) {
  return backfill.trials >= kTrialsNeeded && backfill.typical <= kQuick;
}

size_t DepthMax(const BackfillState& backfill) {
  return backfill.typical <= kVeryQuick ? kDepthVeryQuick : 1;
}

// One rank on cpus: the next trial needs nothing that the one before it may have broken.
bool IsSimple(const ResourceRequest& wanted) {
  return wanted.bundles.size() == 1 && wanted.one().gpu == 0;
}

bool MayBackfill(const World& world, const Owner& owner) {
  const ExperimentIndex* experiment = ExperimentOf(world, owner);
  if (experiment == nullptr) return false;
  const ExperimentSpec& spec = experiment->spec;
  const DriverSpec& driver = spec.driver;
  return spec.short_trials && !driver.searches && !driver.schedules && !driver.selects_next;
}

// How many attempts are between this one and the capacity.
size_t DepthOf(const World& world, const Attempt& attempt) {
  size_t place = 0;
  for (const Attempt* one = &attempt; one != nullptr && one->is_backfilled(); ++place)
    one = FindLive(world.state, one->start_after);
  return place;
}

void OfferTail(BackfillState& backfill, const AttemptId& last) {
  backfill.tails.push_back(last);
  if (backfill.tails.size() > kTailsKept) backfill.tails.pop_front();
}

bool MayFollow(Draft& draft, const BackfillState& backfill, const AttemptId& id,
               const ResourceRequest& wanted, const std::set<NodeId>& closed) {
  const World& world = draft.core.world;
  const Attempt* last = FindLive(world.state, id);
  if (last == nullptr || last->suspending || last->resize.is_pending()) return false;
  if (last->is_frozen()) return false;
  if (world.index.backfills.contains(id)) return false;
  if (PolicyOf(id.owner).is_stopping(world.state, id.owner)) return false;
  if (RequestOf(world, id.owner) != wanted) return false;
  const NodeId node = last->members.front().node;
  if (closed.contains(node) || !MayTakeWork(draft.core, node, draft.now)) return false;
  return !world.state.nodes.at(node).draining && DepthOf(world, *last) < DepthMax(backfill);
}

Millis ExpectedWait(Draft& draft, const Attempt& attempt, const BackfillState& backfill) {
  const Attempt* before = FindLive(draft.state(), attempt.start_after);
  const Millis since = before->started_at == 0 ? draft.now : before->started_at;
  return since + backfill.typical - draft.now;
}

}  // namespace

AttemptId LastBackfill(const World& world, AttemptId first) {
  const auto& next = world.index.backfills;
  for (auto behind = next.find(first); behind != next.end(); behind = next.find(first))
    first = behind->second;
  return first;
}

void NoteEnd(Draft& draft, const AttemptId& ended, const AttemptId& last) {
  if (!MayBackfill(draft.core.world, ended.owner)) return;
  BackfillState& backfill = draft.soft().backfill_states[ended.owner.trial().experiment];
  if (last != ended) OfferTail(backfill, last);
  const Attempt& attempt = FindRuns(draft.state(), ended.owner)->attempts.back();
  const bool by_itself =
      attempt.outcome == AttemptOutcome::kSucceeded || attempt.outcome == AttemptOutcome::kStopped;
  if (attempt.started_at == 0 || !by_itself) return;
  const Millis took = attempt.ended_at - attempt.started_at;
  backfill.typical = backfill.trials == 0 ? took : (3 * backfill.typical + took) / 4;
  ++backfill.trials;
}

void NotePlaced(Draft& draft, const AttemptId& placed) {
  if (MayBackfill(draft.core.world, placed.owner))
    OfferTail(draft.soft().backfill_states[placed.owner.trial().experiment], placed);
}

bool Backfill(Draft& draft, const ResourceRequest& wanted, const ReadyQueue& queue,
              const std::set<NodeId>& closed) {
  const Owner owner = queue.by_order.begin()->second;  // A copy: placing edits the queue.
  if (!IsSimple(wanted) || !MayBackfill(draft.core.world, owner)) return false;
  BackfillState& backfill = draft.soft().backfill_states[owner.trial().experiment];
  if (!IsQuick(backfill)) return false;
  while (!backfill.tails.empty()) {
    const AttemptId last = backfill.tails.front();
    backfill.tails.pop_front();
    if (!MayFollow(draft, backfill, last, wanted, closed)) continue;
    PlaceOn(draft, owner, FindLive(draft.state(), last)->members, last);
    return true;
  }
  return false;
}

void CancelBackfill(Draft& draft, const Owner& owner, const std::string& reason) {
  const Attempt* live = FindRuns(draft.state(), owner)->live();
  if (live == nullptr || !live->is_backfilled() || live->was_heard_of()) return;
  EndAttempt(draft, {.attempt = {owner, live->number, live->generation},
                     .outcome = AttemptOutcome::kWithdrawn,
                     .reason = reason});
}

void CancelBackfills(Draft& draft, ExperimentId experiment, const std::string& reason) {
  const std::set<uint32_t> live = draft.index().experiments.at(experiment).live;  // Edited below.
  for (uint32_t number : live)
    CancelBackfill(draft, Owner::Of(TrialId{experiment, number}), reason);
}

void CancelBackfills(Draft& draft, NodeId node, const std::string& reason) {
  const std::set<Fence> attempts = draft.index().nodes[node].attempts;  // Edited below.
  for (const Fence& fence : attempts) CancelBackfill(draft, fence.attempt.owner, reason);
}

void CancelBackfills(Draft& draft, const AttemptId& first, const std::string& reason) {
  for (AttemptId last = LastBackfill(draft.core.world, first); last != first;) {
    const AttemptId before = FindLive(draft.state(), last)->start_after;
    CancelBackfill(draft, last.owner, reason);
    last = before;
  }
}

void ReviewBackfills(Draft& draft) {
  std::erase_if(draft.soft().backfill_states, [&](const auto& one) {
    return !draft.index().open_experiments.contains(one.first);
  });
  if (draft.index().backfills.empty()) return;
  const std::map<AttemptId, AttemptId> backfills = draft.index().backfills;  // Edited below.
  std::vector<FreeCapacity> capacities;
  if (draft.index().ready.empty()) capacities = CapacitiesNow(draft.core, draft.now);
  for (const auto& [before, id] : backfills) {
    const Attempt* attempt = FindLive(draft.state(), id);
    if (attempt == nullptr || !attempt->is_backfilled()) continue;
    BackfillState& backfill = draft.soft().backfill_states[id.owner.trial().experiment];
    if (draft.now - attempt->placed_at > kWaitMax) {
      backfill.typical = std::max(backfill.typical, kWaitMax);
      CancelBackfill(draft, id.owner, "the trial before it took too long");
    } else if (ExpectedWait(draft, *attempt, backfill) > kWaitAccepted &&
               PutInto(capacities, RequestOf(draft.core.world, id.owner),
                       AvoidedBy(draft.core.world, id.owner))) {
      CancelBackfill(draft, id.owner, "another node has capacity");
    }
  }
}

}  // namespace rt
