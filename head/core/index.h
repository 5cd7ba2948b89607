// Keeping the derived index in step with the state. Called by Apply and Reindex only.
#pragma once

#include "head/core/events.h"
#include "head/core/state.h"

namespace rt {

// The node's place among those that may take work, after its capacity or its readiness changed.
void RefreshFree(World& world, NodeId node);
// The nodes have one replica more (1) or less (-1).
void CountReplicas(World& world, const std::vector<NodeId>& nodes, int64_t change);
void AddReady(World& world, const Owner& owner);
void RemoveReady(World& world, const Owner& owner);
// After one of its trials no longer runs or waits: another may, under max_concurrent.
void ReleaseThrottled(World& world, ExperimentId id);
// After a throttled trial was placed all the same: a rebuilt index may throttle other trials than
// the index by which that was decided.
void Throttle(World& world, ExperimentId id);
// What the trial's driver gave it: its names are taken, its own resources are read.
void TakeOwn(ExperimentIndex& index, const Trial& trial);
// A live attempt takes its members' resources, or is backfilled behind the attempt that has them.
void Occupy(World& world, const AttemptId& id, const Attempt& attempt);
// The attempt has ended: its resources become free, or pass to the attempt that is backfilled
// behind it.
void Vacate(World& world, const AttemptId& id, const Attempt& attempt);
// The capacity by which an attempt is to grow; none when no growth is under way.
void Claim(World& world, const AttemptId& id, const Attempt& attempt);
void ReleaseClaim(World& world, const AttemptId& id, const Attempt& attempt);
// The trial's request is for so many ranks from here on; it does not wait for nodes now.
void SizeRequest(ExperimentIndex& index, uint32_t trial, uint32_t ranks);
// The experiment's best trial after one of its trials' values changed.
void RefreshBest(World& world, TrialId changed);
// After a restart: the owner runs or waits; the experiment and all of its trials do.
void ReindexRuns(World& world, const Owner& owner);
void ReindexExperiment(World& world, const Experiment& experiment);
void IndexExperiment(World& world, const Experiment& experiment);
// It is not finishing: new, or reopened.
void NoteOpen(World& world, ExperimentId id);
void NoteFinishing(World& world, ExperimentId id);
void IndexJob(World& world, const Job& job);
void UncountEnd(ExperimentIndex& index, TrialEnd end);
// Applies ExperimentExtended to the spec.
void ExtendSpec(const Experiment& experiment, ExperimentSpec& spec);
// Brings `paused` up to date after its trial was paused, resumed, stopped or ended.
void NotePaused(ExperimentIndex& index, const Trial& trial);
// Brings `outcomes` up to date after its trial ended or was retried.
void NoteOutcome(ExperimentIndex& index, const Trial& trial);
// Counts its end as well.
void NoteEnd(ExperimentIndex& index, const Trial& trial);

}  // namespace rt
