// Resizes: a live attempt continues with another number of ranks. The generation that runs saves
// and ends as it does when a node of it drains, and the next one resumes from that checkpoint. What
// the attempt grows by is held from the request on. docs/adr/0028.
#include <algorithm>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "head/core/backfill.h"
#include "head/core/draft.h"
#include "head/core/links.h"
#include "head/core/owner_policy.h"
#include "head/core/places.h"
#include "head/core/priorities.h"

namespace rt {
namespace {

absl::Status Refuse(const Owner& owner, const std::string& why, const std::string& hint) {
  return WithHint(absl::FailedPreconditionError(Describe(owner) + " cannot be resized: " + why),
                  hint);
}

// Whether the next generation may run where the member is: its node is there and does not drain,
// has no less than is in use, and its gpus are well.
bool IsUsable(const World& world, const Member& member) {
  const Node& node = world.state.nodes.at(member.node);
  if (!node.ready || !node.counts() || node.draining) return false;
  Resources used = world.index.nodes.at(member.node).used;
  used.gpu = 0;  // By device.
  if (!used.Fits(node.inventory.resources)) return false;
  const std::vector<GpuInfo>& gpus = node.inventory.gpus;
  return std::all_of(member.gpus.begin(), member.gpus.end(), [&](uint32_t index) {
    return gpus.empty() || std::any_of(gpus.begin(), gpus.end(), [&](const GpuInfo& gpu) {
             return gpu.index == index && gpu.fault.empty();
           });
  });
}

std::string RanksText(size_t ranks, const std::string& more = "") {
  return std::to_string(ranks) + more + (ranks == 1 ? " rank" : " ranks");
}

absl::Status CheckSize(const World& world, const input::ResizeRun& input) {
  if (input.ranks == 0 || input.ranks > limits::kBundlesMax)
    return Invalid("an attempt has 1 to " + std::to_string(limits::kBundlesMax) + " ranks, not " +
                       std::to_string(input.ranks),
                   "--ranks 2");
  if (input.save_within <= 0 || input.save_within > limits::kResizeSaveMost)
    return Invalid("the time to save is between 1 ms and " +
                       std::to_string(limits::kResizeSaveMost / 60'000) + " min",
                   "leave it out");
  const ResourceRequest& request = RequestOf(world, input.owner);
  if (request.is_elastic() && (input.ranks < request.ranks_min || input.ranks > request.ranks_max))
    return Invalid("it has " + std::to_string(request.ranks_min) + " to " +
                       std::to_string(request.ranks_max) + " ranks, not " +
                       std::to_string(input.ranks),
                   "ask for a number between these");
  if (!request.is_uniform())
    return Refuse(input.owner, "its bundles are not alike, one for each rank",
                  "ask for {cpu: 1, ranks: 2} instead of a list of bundles");
  return absl::OkStatus();
}

// The live attempt of an owner that can be resized now.
absl::StatusOr<const Attempt*> FindResizable(Draft& draft, const Owner& owner) {
  const World& world = draft.core.world;
  const OwnerPolicy* policy = FindPolicy(owner.kind);
  if (policy == nullptr || policy->runs(world.state, owner) == nullptr)
    return NotFound("there is no " + Describe(owner));
  if (!policy->saves() || policy->apply_size == nullptr)
    return Refuse(owner, "it saves no checkpoint from which it could continue", "resize a trial");
  const Attempt* live = FindRuns(world.state, owner)->live();
  if (live == nullptr || live->is_backfilled()) return Refuse(owner, "it is not running", "");
  if (live->is_frozen()) return Refuse(owner, "it is frozen", "resume it first");
  const bool is_ending = live->suspending || policy->is_stopping(world.state, owner) ||
                         !live->exits.empty() || live->resize.forced;
  if (is_ending) return Refuse(owner, "it is ending", "wait until it runs again");
  return live;
}

// The members that stay, renumbered: all of them, or so many of those that may.
std::vector<Member> KeptOf(const World& world, const Attempt& live, uint32_t ranks) {
  std::vector<Member> kept;
  for (const Member& member : live.members) {
    if (kept.size() == ranks || !IsUsable(world, member)) continue;
    kept.push_back(member);
    kept.back().rank = static_cast<uint32_t>(kept.size() - 1);
  }
  return kept;
}

// Nodes on which the request's strategy allows no more ranks beside those that stay.
std::set<NodeId> ClosedBy(const State& state, Strategy strategy, const std::vector<Member>& kept) {
  std::set<NodeId> closed, used;
  for (const Member& member : kept) used.insert(member.node);
  if (strategy == Strategy::kStrictSpread) return used;
  if (strategy != Strategy::kStrictPack) return closed;
  for (const auto& [id, node] : state.nodes)
    if (!used.contains(id)) closed.insert(id);
  return closed;
}

// Adds ranks where there is capacity, that of a growth under way included.
absl::Status Grow(Draft& draft, const Owner& owner, const Attempt& live, uint32_t ranks,
                  std::vector<Member>& members) {
  const World& world = draft.core.world;
  if (const std::string first = QueuedBefore(world, owner); !first.empty())
    return Refuse(owner, "capacity is reserved for " + first, "wait until its trials run");
  const ResourceRequest& request = RequestOf(world, owner);
  const auto missing = static_cast<uint32_t>(ranks - members.size());
  std::vector<FreeCapacity> capacities = CapacitiesNow(draft.core, draft.now);
  ReturnCapacity(capacities, request, live.Claims());
  std::set<NodeId> closed = ClosedBy(world.state, request.strategy, members);
  closed.merge(AvoidedBy(world, owner));
  const auto more = PutInto(capacities, request.WithRanks(missing), closed);
  if (!more.has_value())
    return Refuse(
        owner, "no capacity for " + RanksText(missing, " more") + " of " + Describe(request.one()),
        "wait for free capacity, or add a node");
  for (Member member : *more) {
    member.rank = static_cast<uint32_t>(members.size());
    members.push_back(std::move(member));
  }
  if (UseSlowLink(world, owner, members))
    return Refuse(owner, "more ranks would use a slow link between " + SlowLinksText(world, owner),
                  "once it is repaired, rt node undrain NODE --links");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Member>> PlanMembers(Draft& draft, const Owner& owner,
                                                const Attempt& live, uint32_t ranks) {
  const size_t stay = std::min<size_t>(ranks, live.members.size());
  std::vector<Member> members = KeptOf(draft.core.world, live, ranks);
  if (members.size() < stay)
    return Refuse(owner, "a node of it drains, or a gpu of it has a fault",
                  "wait until it runs elsewhere");
  if (members.size() < ranks) RT_RETURN_IF_ERROR(Grow(draft, owner, live, ranks, members));
  return members;
}

// What is queued behind it waits for capacity that will be another.
absl::Status CheckBackfills(Draft& draft, const AttemptId& id) {
  const AttemptId last = LastBackfill(draft.core.world, id);
  for (AttemptId behind = last; behind != id;) {
    const Attempt* attempt = FindLive(draft.state(), behind);
    if (attempt->was_heard_of())
      return Refuse(id.owner, Describe(behind.owner) + " begins in its place", "");
    behind = attempt->start_after;
  }
  return absl::OkStatus();
}

// Why a growth that is under way cannot be carried out; empty: it can.
std::string WhyNotGrow(Draft& draft, const Owner& owner, const Attempt& live) {
  if (PolicyOf(owner).is_stopping(draft.state(), owner)) return "it was asked to stop";
  if (live.suspending) return "it was asked to save and end";
  for (const Member& member : live.resize.members) {
    const Node& node = draft.state().nodes.at(member.node);
    if (node.draining) return "node " + node.name + " drains";
    if (!node.counts()) return "node " + node.name + " was lost";
  }
  const RankExit* failure = live.FirstFailure();
  const bool is_ending = failure != nullptr && failure->outcome == AttemptOutcome::kResized;
  if (!live.exits.empty() && !is_ending) return "a rank has ended";
  if (draft.now >= live.resize.save_by && !is_ending) return "it did not save in time";
  return "";
}

}  // namespace

absl::Status OnResizeRun(Draft& draft, const input::ResizeRun& input) {
  RT_ASSIGN_OR_RETURN(const Attempt* live, FindResizable(draft, input.owner));
  RT_RETURN_IF_ERROR(CheckSize(draft.core.world, input));
  const AttemptId id{input.owner, live->number, live->generation};
  const bool is_pending = live->resize.is_pending();
  const size_t wanted = is_pending ? live->resize.members.size() : live->members.size();
  if (wanted == input.ranks) return absl::OkStatus();
  const std::string instead = "another resize, to " + RanksText(input.ranks) + ", replaces it";
  if (live->members.size() == input.ranks) {
    draft.Emit(event::AttemptResizeGivenUp{id, instead});
    return absl::OkStatus();
  }
  RT_ASSIGN_OR_RETURN(std::vector<Member> members,
                      PlanMembers(draft, input.owner, *live, input.ranks));
  RT_RETURN_IF_ERROR(CheckBackfills(draft, id));
  CancelBackfills(draft, id, "the attempt before it is resized");
  if (is_pending) draft.Emit(event::AttemptResizeGivenUp{id, instead});
  draft.Emit(event::AttemptResizeRequested{id, std::move(members), draft.now + input.save_within});
  return absl::OkStatus();
}

void ReviewResizes(Draft& draft) {
  if (draft.index().resizing.empty()) return;
  const std::set<AttemptId> resizing = draft.index().resizing;  // Edited below.
  for (const AttemptId& id : resizing) {
    const Attempt& live = *FindLive(draft.state(), id);
    if (live.is_growing()) {
      const std::string reason = WhyNotGrow(draft, id.owner, live);
      if (!reason.empty()) draft.Emit(event::AttemptResizeGivenUp{id, reason});
    } else if (draft.now >= live.resize.save_by && !live.resize.forced &&
               live.FirstFailure() == nullptr) {
      draft.Emit(event::AttemptResizeForced{id});
    }
  }
}

bool BeginGeneration(Draft& draft, const AttemptId& ended) {
  const Attempt* live = FindLive(draft.state(), ended);
  if (live == nullptr || !live->resize.is_pending() || live->suspending) return false;
  if (PolicyOf(ended.owner).is_stopping(draft.state(), ended.owner)) return false;
  for (const Member& member : live->resize.members)
    if (!IsUsable(draft.core.world, member)) return false;
  RetireUnreachable(draft, ended.owner);
  const Runs& runs = *FindRuns(draft.state(), ended.owner);
  // Numbers of attempts are skipped where the journal has lost its end, which may have begun later
  // generations.
  const uint32_t skipped = runs.next_attempt - ended.number - 1;
  const AttemptId next{ended.owner, ended.number, ended.generation + 1 + skipped};
  const uint64_t checkpoint = runs.checkpoints.empty() ? 0 : runs.checkpoints.back().id;
  const std::vector<Member> members = live->resize.members;
  draft.Emit(event::AttemptResized{next, members, checkpoint});
  RetireByPolicy(draft, ended.owner);
  return true;
}

}  // namespace rt
