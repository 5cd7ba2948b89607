#include "head/core/priorities.h"

#include <algorithm>

#include "common/base/limits.h"
#include "head/core/line.h"

namespace rt {
namespace {

int PriorityOf(const World& world, ExperimentId id) {
  return world.index.experiments.at(id).spec.priority;
}

// Its room will be free without anybody's asking.
bool IsLeaving(const Trial& trial, const Attempt& live) {
  return live.suspending || trial.stop_cause != StopCause::kNone || live.FirstFailure() != nullptr;
}

}  // namespace

int PriorityOf(const World& world, const Owner& owner) {
  return owner.is_trial() ? PriorityOf(world, owner.trial().experiment) : 0;
}

bool RunsBelow(const World& world, int priority) {
  for (ExperimentId id : world.index.open_experiments) {
    const ExperimentIndex& index = world.index.experiments.at(id);
    if (index.spec.priority < priority && !index.live.empty()) return true;
  }
  return false;
}

void Claims::Look() {
  if (looked_) return;
  looked_ = true;
  const World& world = draft_.core.world;
  rooms_ = RoomsNow(draft_.core, draft_.now);
  for (ExperimentId id : world.index.open_experiments) {
    for (uint32_t number : world.index.experiments.at(id).live) {
      const Owner owner = Owner::Of(TrialId{id, number});
      const Trial& trial = *FindTrial(world.state, owner.trial());
      const Attempt& live = *trial.runs.live();
      if (live.stands_in_line()) continue;  // It holds no room.
      if (IsLeaving(trial, live)) {
        Leave(rooms_, RequestOf(world, owner), live.members);
      } else {
        runners_.push_back({{owner, live.number, live.generation}, PriorityOf(world, id),
                            live.placed_at, &live});
      }
    }
  }
  std::sort(runners_.begin(), runners_.end(), [](const Runner& a, const Runner& b) {
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.placed_at != b.placed_at ? a.placed_at > b.placed_at : b.id < a.id;
  });
}

void Claims::Make(const ResourceRequest& wanted, const ReadyQueue& queue) {
  for (const auto& [turn, owner] : queue.by_turn) {
    const bool claimed = MakeFor(wanted, owner);
    if (!claimed && AvoidedBy(draft_.core.world, owner).empty()) return;
  }
}

bool Claims::MakeFor(const ResourceRequest& wanted, const Owner& owner) {
  const World& world = draft_.core.world;
  if (!owner.is_trial() || !RunsBelow(world, rt::PriorityOf(world, owner))) return false;
  if (made_.contains(owner)) return true;
  if (made_.size() == limits::kClaimsPerRound) return false;
  made_.insert(owner);
  Look();
  return Claim(owner, wanted);
}

bool Claims::Claim(const Owner& owner, const ResourceRequest& wanted) {
  const World& world = draft_.core.world;
  const int priority = rt::PriorityOf(world, owner);
  const std::set<NodeId> avoided = AvoidedBy(world, owner);
  const auto leaving = WhoLeaves(wanted, priority, avoided);
  if (!leaving.has_value()) return false;
  for (const Runner& one : *leaving) {
    Leave(rooms_, RequestOf(world, one.id.owner), one.attempt->members);
    std::erase_if(runners_, [&](const Runner& runner) { return runner.id == one.id; });
    LeaveLines(draft_, one.id, "its room is for a higher priority");
    draft_.Emit(event::RoomClaimed{one.id, owner.trial().experiment});
  }
  const auto members = PutInto(rooms_, wanted, avoided);
  if (!members.has_value()) return false;
  for (const Member& member : *members) kept_.try_emplace(member.node, priority);
  return true;
}

std::optional<std::vector<Claims::Runner>> Claims::WhoLeaves(
    const ResourceRequest& wanted, int priority, const std::set<NodeId>& avoided) const {
  const World& world = draft_.core.world;
  const auto fits = [&](const std::vector<Runner>& gone) {
    std::vector<Room> rooms = rooms_;
    for (const Runner& one : gone)
      Leave(rooms, RequestOf(world, one.id.owner), one.attempt->members);
    return PutInto(rooms, wanted, avoided).has_value();
  };
  std::vector<Runner> gone;
  if (fits(gone)) return gone;
  const auto below = std::partition_point(runners_.begin(), runners_.end(), [&](const Runner& one) {
    return one.priority < priority;
  });
  gone.assign(runners_.begin(), below);
  if (!fits(gone)) return std::nullopt;
  // So few of them that it still fits, the lowest and youngest; then none of those without need.
  size_t least = 1, most = gone.size();
  while (least < most) {
    const size_t middle = least + (most - least) / 2;
    if (fits({runners_.begin(), runners_.begin() + static_cast<std::ptrdiff_t>(middle)})) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  std::vector<Runner> first(gone.begin(), gone.begin() + static_cast<std::ptrdiff_t>(least));
  if (fits(first)) gone = std::move(first);  // Packing is greedy: more room may be worse for it.
  for (size_t i = gone.size(); i-- > 0;) {
    std::vector<Runner> fewer = gone;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (fits(fewer)) gone = std::move(fewer);
  }
  return gone;
}

void Claims::NotePlaced(const ResourceRequest& wanted, const std::vector<Member>& members) {
  if (looked_) Enter(rooms_, wanted, members);
}

std::set<NodeId> Claims::KeptFrom(int priority) const {
  std::set<NodeId> nodes;
  for (const auto& [node, whose] : kept_)
    if (whose > priority) nodes.insert(node);
  return nodes;
}

std::string WhoIsBefore(const World& world, const Owner& owner) {
  const int priority = rt::PriorityOf(world, owner);
  for (ExperimentId id : world.index.open_experiments) {
    const ExperimentIndex& index = world.index.experiments.at(id);
    if (index.spec.priority > priority && index.ready > 0)
      return "experiment " + std::to_string(id.value) + " of priority " +
             std::to_string(index.spec.priority);
  }
  return "";
}

size_t CountLeavingFor(const World& world, const Owner& owner) {
  const int priority = rt::PriorityOf(world, owner);
  size_t leaving = 0;
  for (ExperimentId id : world.index.open_experiments) {
    const ExperimentIndex& index = world.index.experiments.at(id);
    if (index.spec.priority >= priority) continue;
    for (uint32_t number : index.live)
      leaving += FindTrial(world.state, {id, number})->runs.live()->suspending ? 1 : 0;
  }
  return leaving;
}

}  // namespace rt
