// Freezes: a trial that is paused or preempted is stopped where it is, keeps its memory, and
// continues in place (docs/adr/0043). Its node says whether it can; where it cannot, the attempt
// saves and ends as without the wish.
#pragma once

#include <set>
#include <string>

#include "common/spec/packing.h"
#include "head/core/draft.h"

namespace rt {

// What a frozen attempt of this bundle still holds: memory and custom resources.
Resources HeldFrozen(const Resources& bundle);
// What it needs to continue: cpus and gpus.
ResourceRequest NeededToThaw(const ResourceRequest& request);

// Whether the node has the cpus of the bundle and the very gpus of the member.
bool HasCapacityOf(const FreeCapacity& capacity, const Resources& bundle, const Member& member);

// Whether the owner's live attempt is frozen.
bool IsFrozen(const World& world, const Owner& owner);
// Whether its live attempt could be frozen if it were asked now: its experiment wants that, it has
// one rank that runs, and its node stays.
bool MayFreeze(const World& world, const Owner& owner);
// After it was asked to save and end: it is to be frozen instead, if it may be.
void TryFreeze(Draft& draft, const Owner& owner);
// What its node says.
void NoteFreeze(Draft& draft, const Observed& observed);
// A frozen owner that waits: it continues if its node has its cpus and gpus for it. `closed`: nodes
// that are kept for others. False: it waits on.
bool TryThaw(Draft& draft, const Owner& owner, const std::set<NodeId>& closed);
// Ends or gives up those that cannot be thawed: their nodes drain, or other nodes have had capacity
// for too long; or were not frozen in time.
void ReviewFreezes(Draft& draft);

}  // namespace rt
