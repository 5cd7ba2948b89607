// Reallocation: what is legal when a trial gets other resources, from the policies' description, or
// from its driver.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {

// Its newest row came with a checkpoint, so that nothing is lost: the event that accepts the row
// is in the same transaction.
void Auditor::BeginReallocation(TrialId id) {
  TrialBook& trial = TrialOf(id);
  OwnerBook& runs = trial.runs;
  const AuditedSpec& spec = ExperimentOf(id.experiment).spec;
  Must(spec.reallocates || (spec.driver_allocates && !trial.allocation.empty()),
       "trials of this search keep their resources");
  Must(runs.live && !runs.paused && !runs.suspending, "a running trial is given other resources");
  runs.paused = runs.suspending = true;
}

// A trial has at least what it began with, and what it has beyond that is free on a node.
void Auditor::On(const event::TrialReallocated& e) {
  TrialBook& trial = TrialOf(e.trial);
  OwnerBook& runs = trial.runs;
  Must(trial.reallocating && runs.paused && !runs.live && !runs.over && !runs.stop_requested,
       "a trial gets other resources once its attempt has ended");
  runs.paused = trial.reallocating = false;
  const AuditedAsks& base = ExperimentOf(e.trial.experiment).spec.asks;
  if (ExperimentOf(e.trial.experiment).spec.driver_allocates) {
    CheckAllocated(trial, e);
    if (e.resources == trial.allocation) trial.allocation.clear();
    trial.resources = e.resources;
    const absl::StatusOr<Json> json = Json::Parse(e.resources.empty() ? "null" : e.resources);
    Must(json.ok(), "resources are JSON");
    runs.asks = e.resources.empty() ? base : AuditedAsks::From(&*json, 10'000);
    return;
  }
  runs.asks = base;
  if (e.resources.empty()) return;
  const absl::StatusOr<Json> json = Json::Parse(e.resources);
  Must(json.ok(), "resources are JSON");
  runs.asks = AuditedAsks::From(&*json, 10'000);
  const Resources& now = runs.asks.bundles.front();
  Must(runs.asks.bundles.size() == 1 && base.bundles.front().Fits(now),
       "a trial keeps what it began with");
  Must(IsFreeOnANode(now), "a trial grows into what is free");
}

bool Auditor::IsFreeOnANode(const Resources& asked) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& one) {
    const NodeBook& node = one.second;
    return node.ready && !node.gone && !node.draining &&
           node.used.cpu + asked.cpu <= node.inventory.resources.cpu;
  });
}

// A driver's answer is taken over by a trial that goes on. It says nothing again.
void Auditor::Allocate(const event::Answered& e, const AllocatedTrial& given) {
  const TrialId id{e.experiment, given.number};
  TrialBook& trial = TrialOf(id);
  Must(e.session != 0 && ExperimentOf(e.experiment).spec.driver_allocates,
       "a driver gives resources only where it is asked to");
  Must(!trial.runs.over, "a trial that has ended gets nothing");
  Must(given.resources != trial.allocation, "an answer about resources is news");
  Must(given.resources.empty() || truth_->allocated.contains({id, given.resources}),
       "a trial gets what its driver said");
  trial.allocation = given.resources;
}

// It has what its driver gave it, if that is free on a node; otherwise what it had.
void Auditor::CheckAllocated(const TrialBook& trial, const event::TrialReallocated& e) const {
  if (e.resources == trial.resources) return;
  Must(e.resources == trial.allocation, "a trial gets what its driver said last, or keeps its own");
  const absl::StatusOr<Json> json = Json::Parse(e.resources);
  Must(json.ok(), "resources are JSON");
  Must(IsFreeOnANode(AuditedAsks::From(&*json, 10'000).bundles.front()),
       "a trial grows into what is free");
}

}  // namespace rt::sim
