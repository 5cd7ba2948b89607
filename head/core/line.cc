#include "head/core/line.h"

#include <algorithm>
#include <vector>

#include "common/base/limits.h"
#include "head/core/places.h"

namespace rt {
namespace {

constexpr uint32_t kTrialsBefore = 4;       // Of a search, before its pace is believed.
constexpr Millis kQuick = 2'000;            // A trial that is over within that is one of a moment.
constexpr Millis kVeryQuick = 100;          // Asking the head takes a good part of that.
constexpr size_t kBehindVeryQuick = 3;      // Who may stand behind such a one; else one.
constexpr size_t kEndsKept = 4'096;
constexpr Millis kWaitMax = 2 * kQuick;     // In line: the one in front is not one of a moment.
constexpr Millis kWorthMoving = 200;        // Waiting less than that is better than beginning anew.

bool IsQuick(const Pace& pace) { return pace.trials >= kTrialsBefore && pace.typical <= kQuick; }

size_t MostBehind(const Pace& pace) { return pace.typical <= kVeryQuick ? kBehindVeryQuick : 1; }

// One rank on cpus: whoever comes next needs nothing that the one before it may have broken.
bool IsSimple(const ResourceRequest& wanted) {
  return wanted.bundles.size() == 1 && wanted.one().gpu == 0;
}

bool MayStand(const World& world, const Owner& owner) {
  if (!owner.is_trial()) return false;
  const ExperimentSpec& spec = world.index.experiments.at(owner.trial().experiment).spec;
  const DriverSpec& driver = spec.driver;
  return spec.short_trials && !driver.suggests && !driver.judges && !driver.chooses;
}

// How many stand between it and the room.
size_t PlaceOf(const World& world, const Attempt& attempt) {
  size_t place = 0;
  for (const Attempt* one = &attempt; one != nullptr && one->stands_in_line(); ++place)
    one = FindLive(world.state, one->after);
  return place;
}

void Offer(Pace& pace, const AttemptId& last) {
  pace.ends.push_back(last);
  if (pace.ends.size() > kEndsKept) pace.ends.pop_front();
}

bool MayFollow(Draft& draft, const Pace& pace, const AttemptId& id, const ResourceRequest& wanted,
               const std::set<NodeId>& closed) {
  const World& world = draft.core.world;
  const Attempt* last = FindLive(world.state, id);
  if (last == nullptr || last->suspending || world.index.next_in_line.contains(id)) return false;
  if (FindTrial(world.state, id.owner.trial())->stop_cause != StopCause::kNone) return false;
  if (RequestOf(world, id.owner) != wanted) return false;
  const NodeId node = last->members.front().node;
  if (closed.contains(node) || !MayTakeWork(draft.core, node, draft.now)) return false;
  return !world.state.nodes.at(node).draining && PlaceOf(world, *last) < MostBehind(pace);
}

Millis ExpectedWait(Draft& draft, const Attempt& attempt, const Pace& pace) {
  const Attempt* before = FindLive(draft.state(), attempt.after);
  const Millis since = before->started_at == 0 ? draft.now : before->started_at;
  return since + pace.typical - draft.now;
}

}  // namespace

AttemptId LastInLine(const World& world, AttemptId first) {
  const auto& next = world.index.next_in_line;
  for (auto behind = next.find(first); behind != next.end(); behind = next.find(first))
    first = behind->second;
  return first;
}

void NoteEnd(Draft& draft, const AttemptId& ended, const AttemptId& last) {
  if (!MayStand(draft.core.world, ended.owner)) return;
  Pace& pace = draft.soft().paces[ended.owner.trial().experiment];
  if (last != ended) Offer(pace, last);
  const Attempt& attempt = FindRuns(draft.state(), ended.owner)->attempts.back();
  const bool by_itself = attempt.outcome == AttemptOutcome::kSucceeded ||
                         attempt.outcome == AttemptOutcome::kStopped;
  if (attempt.started_at == 0 || !by_itself) return;
  const Millis took = attempt.ended_at - attempt.started_at;
  pace.typical = pace.trials == 0 ? took : (3 * pace.typical + took) / 4;
  ++pace.trials;
}

void NotePlaced(Draft& draft, const AttemptId& placed) {
  if (MayStand(draft.core.world, placed.owner))
    Offer(draft.soft().paces[placed.owner.trial().experiment], placed);
}

bool PlaceInLine(Draft& draft, const ResourceRequest& wanted, const ReadyQueue& queue,
                 const std::set<NodeId>& closed) {
  const Owner owner = queue.by_turn.begin()->second;  // A copy: placing edits the queue.
  if (!IsSimple(wanted) || !MayStand(draft.core.world, owner)) return false;
  Pace& pace = draft.soft().paces[owner.trial().experiment];
  if (!IsQuick(pace)) return false;
  while (!pace.ends.empty()) {
    const AttemptId last = pace.ends.front();
    pace.ends.pop_front();
    if (!MayFollow(draft, pace, last, wanted, closed)) continue;
    PlaceOn(draft, owner, FindLive(draft.state(), last)->members, last);
    return true;
  }
  return false;
}

void LeaveLine(Draft& draft, const Owner& owner, const std::string& reason) {
  const Attempt* live = FindRuns(draft.state(), owner)->live();
  if (live == nullptr || !live->stands_in_line() || live->was_heard_of()) return;
  EndAttempt(draft, {.attempt = {owner, live->number, live->generation},
                     .outcome = AttemptOutcome::kWithdrawn,
                     .reason = reason});
}

void LeaveLines(Draft& draft, ExperimentId experiment, const std::string& reason) {
  const std::set<uint32_t> live = draft.index().experiments.at(experiment).live;  // Edited below.
  for (uint32_t number : live) LeaveLine(draft, Owner::Of(TrialId{experiment, number}), reason);
}

void LeaveLines(Draft& draft, NodeId node, const std::string& reason) {
  const std::set<Fence> held = draft.index().nodes[node].attempts;  // Edited below.
  for (const Fence& fence : held) LeaveLine(draft, fence.attempt.owner, reason);
}

void LeaveLines(Draft& draft, const AttemptId& first, const std::string& reason) {
  for (AttemptId last = LastInLine(draft.core.world, first); last != first;) {
    const AttemptId before = FindLive(draft.state(), last)->after;
    LeaveLine(draft, last.owner, reason);
    last = before;
  }
}

void TidyLines(Draft& draft) {
  std::erase_if(draft.soft().paces, [&](const auto& one) {
    return !draft.index().open_experiments.contains(one.first);
  });
  if (draft.index().next_in_line.empty()) return;
  const std::map<AttemptId, AttemptId> lines = draft.index().next_in_line;  // Edited below.
  std::vector<Room> rooms;
  if (draft.index().ready.empty()) rooms = RoomsNow(draft.core, draft.now);
  for (const auto& [before, id] : lines) {
    const Attempt* attempt = FindLive(draft.state(), id);
    if (attempt == nullptr || !attempt->stands_in_line()) continue;
    Pace& pace = draft.soft().paces[id.owner.trial().experiment];
    if (draft.now - attempt->placed_at > kWaitMax) {
      pace.typical = std::max(pace.typical, kWaitMax);
      LeaveLine(draft, id.owner, "who stood before it took too long");
    } else if (ExpectedWait(draft, *attempt, pace) > kWorthMoving &&
               PutInto(rooms, RequestOf(draft.core.world, id.owner),
                       AvoidedBy(draft.core.world, id.owner))) {
      LeaveLine(draft, id.owner, "there is room elsewhere");
    }
  }
}

}  // namespace rt
