// Reallocation: what is legal when a trial gets other resources, from the policies' description.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {

// Its newest row came with a checkpoint, so that nothing is lost: the event that accepts the row
// is in the same transaction.
void Auditor::BeginReallocation(TrialId id) {
  OwnerBook& runs = TrialOf(id).runs;
  Must(ExperimentOf(id.experiment).spec.reallocates, "trials of this search keep their resources");
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
  runs.asks = base;
  if (e.resources.empty()) return;
  const absl::StatusOr<Json> json = Json::Parse(e.resources);
  Must(json.ok(), "resources are JSON");
  runs.asks = AuditedAsks::From(&*json, 10'000);
  const Resources& now = runs.asks.bundles.front();
  Must(runs.asks.bundles.size() == 1 && base.bundles.front().Fits(now),
       "a trial keeps what it began with");
  const bool is_free = std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& one) {
    const NodeBook& node = one.second;
    return node.ready && !node.gone && !node.draining &&
           node.used.cpu + now.cpu <= node.inventory.resources.cpu;
  });
  Must(is_free, "a trial grows into what is free");
}

}  // namespace rt::sim
