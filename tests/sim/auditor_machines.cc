// The auditor's part about machines by demand: what may be asked for, what may be released, and
// that nothing is said of the cloud that is not so.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {

size_t Auditor::LiveMachines() const {
  return static_cast<size_t>(std::count_if(machines_.begin(), machines_.end(),
                                           [](const auto& one) { return !one.second.released; }));
}

size_t Auditor::LiveMachines(const std::string& pool) const {
  return static_cast<size_t>(std::count_if(
      machines_.begin(), machines_.end(),
      [&](const auto& one) { return !one.second.released && one.second.pool == pool; }));
}

size_t Auditor::MachinesThere(const std::string& pool) const {
  return static_cast<size_t>(
      std::count_if(machines_.begin(), machines_.end(),
                    [&](const auto& one) { return one.second.pool == pool; }));
}

size_t Auditor::StayingMachines(const std::string& pool) const {
  return static_cast<size_t>(
      std::count_if(machines_.begin(), machines_.end(), [&](const auto& one) {
        const MachineBook& machine = one.second;
        const auto node = nodes_.find(machine.node);
        const bool leaves = node != nodes_.end() && !node->second.gone && node->second.draining;
        return !machine.released && machine.pool == pool && !leaves;
      }));
}

size_t Auditor::PendingMachines(const std::string& pool) const {
  return static_cast<size_t>(
      std::count_if(machines_.begin(), machines_.end(), [&](const auto& one) {
        const MachineBook& machine = one.second;
        const auto node = nodes_.find(machine.node);
        const bool was_ready = node != nodes_.end() && !node->second.gone && node->second.was_ready;
        return !machine.released && machine.pool == pool && !was_ready;
      }));
}

// What may be waiting for a place, or be about to lose it: more than the core counts, never less.
size_t Auditor::WaitingBundles() const {
  size_t bundles = 0;
  const auto add = [&](const OwnerBook& runs) {
    if (!runs.over && (!runs.live || runs.evicting)) bundles += runs.asks.bundles.size();
  };
  for (const auto& [id, job] : jobs_) add(job.runs);
  for (ExecutorId id : open_executors_) add(executors_.at(id).runs);
  for (const auto& [id, experiment] : experiments_)
    for (const TrialBook& trial : experiment.trials) add(trial.runs);
  return bundles;
}

bool Auditor::AwaitsNodeOf(const PoolSpec& pool) const {
  const auto awaits = [&](const OwnerBook& runs) {
    if (runs.over || runs.live || runs.paused || runs.stop_requested) return false;
    const std::vector<Resources>& bundles = runs.asks.bundles;
    return bundles.size() == 1 && bundles.front().Fits(pool.each);
  };
  for (const auto& [id, job] : jobs_)
    if (awaits(job.runs)) return true;
  for (ExecutorId id : open_executors_)
    if (awaits(executors_.at(id).runs)) return true;
  for (const auto& [id, experiment] : experiments_)
    for (const TrialBook& trial : experiment.trials)
      if (!experiment.finished && awaits(trial.runs)) return true;
  return false;
}

void Auditor::On(const event::MachinesRequested& e) {
  Must(e.request > newest_machine_ && e.count > 0, "a machine number is used once");
  for (const auto& [number, machine] : machines_)
    Must(machine.pool != e.pool || machine.released || !machine.id.empty(),
         "one request of a pool is open at a time");
  const PoolSpec& pool = truth_->pools.at(e.pool);
  Must(MachinesThere(e.pool) + e.count <= pool.max_workers, "max_workers is never exceeded");
  Must(!truth_->max_workers || MachinesThere() + e.count <= *truth_->max_workers,
       "max_workers of the cluster is never exceeded");
  // Each node that is on its way is for min_workers, or for something that waits or is requested.
  size_t wanted = pool.min_workers + WaitingBundles();
  for (const RequestedBundles& one : requested_) wanted += one.count;
  Must(PendingMachines(e.pool) + e.count <= wanted,
       "no machine is asked for twice for the same demand");
  for (uint64_t number = e.request; number < e.request + e.count; ++number)
    machines_[number] = {.pool = e.pool, .request = e.request};
  newest_machine_ = e.request + e.count - 1;
}

void Auditor::On(const event::MachinesCreated& e) {
  for (const CreatedMachine& created : e.machines) {
    Must(machines_.contains(created.machine), "only a machine that was asked for is confirmed");
    MachineBook& machine = machines_.at(created.machine);
    Must(machine.id.empty() && machine.request == e.request, "a machine is confirmed once");
    const auto made = truth_->machine_ids.find(created.machine);
    Must(made != truth_->machine_ids.end() && made->second == created.id,
         "a machine is confirmed that the cloud has made");
    machine.id = created.id;
  }
}

void Auditor::On(const event::MachinesFailed& e) {
  Must(e.error != ProviderError::kNone && e.retry_at > at_, "a failure has a class and a time");
  if (e.error == ProviderError::kRetryLater) return;
  std::erase_if(machines_, [&](const auto& one) {
    return one.second.request == e.request && one.second.id.empty();
  });
}

// Nothing runs there, nothing is there that exists nowhere else, and it was so for long enough.
void Auditor::CheckIdle(const MachineBook& machine) const {
  const NodeBook& node = nodes_.at(machine.node);
  Must(node.live.empty(), "a node with an attempt is not idle");
  Must(!HasOnlyCopy(machine.node), "a node with the only copy of a checkpoint is not idle");
  const PoolSpec& pool = truth_->pools.at(machine.pool);
  Must(at_ - node.busy_at >= pool.idle_timeout, "a node is released after the idle timeout");
  CheckNotRequested(machine.node);
  Must(node.draining || StayingMachines(machine.pool) > pool.min_workers, "min_workers stay");
}

void Auditor::On(const event::ResourcesRequested& e) {
  Must(std::find(truth_->requests.begin(), truth_->requests.end(), e.bundles) !=
           truth_->requests.end(),
       "somebody requested these bundles");
  requested_ = e.bundles;
}

// Requests of a simulation are for bundles of one size, in cpus.
void Auditor::CheckNotRequested(NodeId idle) const {
  if (requested_.empty()) return;
  const int64_t each = requested_.front().each.cpu;
  int64_t held = 0, without = 0;
  for (const auto& [id, node] : nodes_) {
    if (!node.ready || node.lost || node.gone || node.draining) continue;
    const int64_t bundles = node.inventory.resources.cpu / each;
    held += bundles;
    without += id == idle ? 0 : bundles;
  }
  Must(without >= std::min(held, static_cast<int64_t>(requested_.front().count)),
       "a node that holds what was requested stays");
}

bool Auditor::HasOnlyCopy(NodeId id) const {
  for (const auto& [experiment, book] : experiments_)
    for (const TrialBook& trial : book.trials)
      for (const CheckpointBook& checkpoint : trial.runs.checkpoints)
        if (!checkpoint.retired && checkpoint.replicas.contains(id)) return true;
  return false;
}

void Auditor::On(const event::MachineReleased& e) {
  newest_machine_ = std::max(newest_machine_, e.machine);
  const auto known = machines_.find(e.machine);
  if (known == machines_.end()) {
    Must(truth_->machine_ids.contains(e.machine) && truth_->machine_ids.at(e.machine) == e.id,
         "only what carries the cluster's tag is removed");
    machines_[e.machine] = {.pool = e.pool, .request = e.machine, .id = e.id, .released = true};
    return;
  }
  Must(!known->second.released, "a machine is released once");
  if (e.reason == "it was idle") CheckIdle(known->second);
  known->second.released = true;
}

void Auditor::On(const event::MachineDeleted& e) {
  Must(machines_.contains(e.machine), "only a machine that is known is deleted");
  const auto made = truth_->machine_ids.find(e.machine);
  Must(made == truth_->machine_ids.end() || truth_->machines_gone.contains(made->second),
       "a machine is forgotten once the cloud does not have it");
  machines_.erase(e.machine);
}

// With its machine, or because that has joined again.
bool Auditor::MayLeave(NodeId, const NodeBook& node) const {
  if (node.machine == 0) return false;
  const auto machine = machines_.find(node.machine);
  return machine == machines_.end() || machine->second.released || joining_machine_ == node.machine;
}

}  // namespace rt::sim
