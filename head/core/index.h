// Keeping the derived index in step with the state. Called by Apply and Reindex only.
#pragma once

#include "head/core/events.h"
#include "head/core/state.h"

namespace rt {

// The node's place among those that may take work, after its capacity or its readiness changed.
void RefreshFree(World& world, NodeId node);
// The nodes hold a checkpoint more (1), or one less (-1).
void CountReplicas(World& world, const std::vector<NodeId>& nodes, int64_t change);
void AddReady(World& world, const Owner& owner);
void RemoveReady(World& world, const Owner& owner);
// After one of its trials no longer runs or waits: another may, under max_concurrent.
void ReleaseThrottled(World& world, ExperimentId id);
// After one that was held runs all the same: an index that was made anew may hold back others than
// the one that decided it.
void Throttle(World& world, ExperimentId id);
// What the trial's driver gave it: its names are taken, its own resources are read.
void TakeOwn(ExperimentIndex& index, const Trial& trial);
// A live attempt takes its members' resources, or its place in line for them.
void Occupy(World& world, const AttemptId& id, const Attempt& attempt);
// It has ended: gives them back, or to who stands next in line.
void Vacate(World& world, const AttemptId& id, const Attempt& attempt);
// The experiment's best trial after one of its trials' values changed.
void RefreshBest(World& world, TrialId changed);
void IndexExperiment(World& world, const Experiment& experiment);
void IndexJob(World& world, const Job& job);
void UncountEnd(ExperimentIndex& index, TrialEnd end);
// The spec as it stands after ExperimentExtended.
void ExtendSpec(const Experiment& experiment, ExperimentSpec& spec);
void CountEnd(ExperimentIndex& index, TrialEnd end);

}  // namespace rt
