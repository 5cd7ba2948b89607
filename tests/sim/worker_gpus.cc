// The gpus of a simulated node: how they fail, and what its worker tells of that.
#include <algorithm>

#include "tests/sim/worker_host.h"

namespace rt::sim {

void WorkerHost::SickenGpu() {
  if (size_.gpu < kUnit) return;
  sim_.faults.Add(Fault::kGpuSick);
  sick_gpu_ = static_cast<uint32_t>(sim_.rng.Below(static_cast<uint64_t>(size_.gpu / kUnit)));
  // Every other fault lasts until a person clears it.
  quarantine_ = sim_.now % 2 == 0 ? static_cast<uint64_t>(sim_.now) : 0;
  const std::string uuid = name_ + "-gpu" + std::to_string(*sick_gpu_);
  for (auto& [fence, run] : runs_) {
    const std::vector<std::string>& held = run.body.gpu_uuids;
    const bool is_there = std::find(held.begin(), held.end(), uuid) != held.end();
    if (run.alive && quarantine_ != 0 && is_there) sim_.truth.runs[fence].gpu_failed = true;
  }
}

std::optional<uint32_t> WorkerHost::QuarantinedGpu() const {
  return quarantine_ == 0 || !present_ ? std::nullopt : sick_gpu_;
}

void WorkerHost::AddGpus(NodeInventory& inventory) const {
  for (uint32_t i = 0; i < size_.gpu / kUnit; ++i) {
    const bool sick = sick_gpu_ == i && (!sim_.calm || quarantine_ != 0);
    GpuInfo gpu{.uuid = name_ + "-gpu" + std::to_string(i), .index = i, .name = "fake"};
    if (sick) gpu.fault = "it is lost";
    if (sick) gpu.quarantine = quarantine_;
    gpu.by_hand = gpu.quarantine % 4 == 2;
    inventory.gpus.push_back(gpu);
    if (sick) inventory.resources.gpu -= kUnit;
  }
}

void WorkerHost::AddGpuFaults(std::vector<Observed>& observed) const {
  for (Observed& one : observed) {
    const auto truth = sim_.truth.runs.find(one.fence);
    if (truth == sim_.truth.runs.end()) continue;
    one.bus_gbps = truth->second.bus_gbps;
    if (!truth->second.gpu_failed || one.phase != Observed::Phase::kExited) continue;
    one.gpu_fault = "a gpu of it failed";
    one.slow_links = truth->second.slow_links;
  }
}

// Another node of the gang than that of rank 0, which knows the nodes of all ranks; none: it is on
// one node, or its preflight measures no links.
NodeId WorkerHost::OtherNodeOf(const Run& run) {
  const std::vector<NodeId>& nodes = run.body.rank_nodes;
  if (run.body.preflight_min_bus_gbps <= 0) return {};
  const auto other =
      std::find_if(nodes.begin(), nodes.end(), [&](NodeId node) { return node != nodes.front(); });
  return other == nodes.end() ? NodeId{} : *other;
}

// Half of the links are slow for a while, one after another; where nobody repairs them, also for
// some time after the faults.
bool WorkerHost::IsOverSlowLink(const Run& run) const {
  constexpr Millis kSlowMost = 150'000;
  const bool may_be = !sim_.calm || (sim_.links_stay && sim_.now < sim_.calm_at + kSlowMost);
  const NodeId other = OtherNodeOf(run);
  if (!may_be || other == NodeId{}) return false;
  return Mix64(static_cast<uint64_t>(sim_.now) / 8'192 + run.body.rank_nodes[0].value * 97 +
               other.value) %
             2 ==
         0;
}

// Without a draw of the run's generator: other runs keep their course.
bool WorkerHost::FailsPreflight(const Fence& fence, Run& run) {
  const std::vector<std::string>& held = run.body.gpu_uuids;
  if (!run.body.preflight || held.empty()) return false;
  bool is_untested = false;
  const bool may_fail = !sick_gpu_;  // One gpu at a time.
  const uint64_t drawn = Mix64(static_cast<uint64_t>(sim_.now) + fence.rank);
  if (may_fail && IsOverSlowLink(run)) {
    sim_.faults.Add(Fault::kLinkSlow);
    const uint32_t other = drawn % 4 == 0 ? 0 : 1;  // Now and then its own link to all others.
    sim_.truth.runs[fence].slow_links = {{0, other, static_cast<double>(drawn % 90)}};
  } else if (may_fail && !sim_.calm && drawn % 8 == 0) {
    sim_.faults.Add(Fault::kPreflightFailed);
    for (uint32_t i = 0; i < size_.gpu / kUnit; ++i)
      if (name_ + "-gpu" + std::to_string(i) == held.front()) sick_gpu_ = i;
    quarantine_ = static_cast<uint64_t>(sim_.now);
  } else if (may_fail && !sim_.calm && drawn % 8 == 1) {
    sim_.faults.Add(Fault::kPreflightBroken);
    is_untested = true;
  } else {
    if (OtherNodeOf(run) != NodeId{})
      sim_.truth.runs[fence].bus_gbps =
          run.body.preflight_min_bus_gbps + static_cast<double>(drawn % 50);
    return false;
  }
  run.alive = false;
  run.exit = worker::ExitFacts{127, 0, true, true, "preflight"};
  run.exit->untested = is_untested;
  TruthRun& truth = sim_.truth.runs[fence];
  truth.exited = truth.launch_failed = truth.witnessed = true;
  truth.gpu_failed = !is_untested;
  truth.untested = is_untested;
  truth.exit_code = 127;
  OutputsOfStarted(fence);
  Feed(worker::input::Exited{fence, *run.exit});  // May forget the run.
  Daemon(5, [this, fence] { Drain(fence); });
  return true;
}

void WorkerHost::ClearGpus(const std::vector<ClearedGpu>& all) {
  for (const ClearedGpu& cleared : all) {
    const std::string uuid = name_ + "-gpu" + std::to_string(sick_gpu_.value_or(0));
    if (cleared.uuid != uuid || quarantine_ == 0 || quarantine_ > cleared.quarantine) continue;
    quarantine_ = 0;
    sick_gpu_.reset();
  }
}

// Of several the last one is sick: a node has one at a time.
void WorkerHost::QuarantineGpus(const std::vector<FaultyGpu>& all) {
  for (const FaultyGpu& faulty : all)
    for (uint32_t i = 0; i < size_.gpu / kUnit; ++i) {
      if (faulty.uuid != name_ + "-gpu" + std::to_string(i)) continue;
      if (sick_gpu_ == i && quarantine_ != 0) continue;
      sick_gpu_ = i;
      quarantine_ = static_cast<uint64_t>(sim_.now);
    }
}

// Without a draw of the run's generator: other runs keep their course.
std::optional<uint32_t> WorkerHost::ProbedAtFault() const {
  const bool may_be = present_ && size_.gpu >= kUnit && !sim_.calm && !sick_gpu_;
  const uint64_t drawn = Mix64(static_cast<uint64_t>(sim_.now) + node_.value);
  if (!may_be || drawn % 64 != 0) return std::nullopt;
  return static_cast<uint32_t>(drawn / 64 % static_cast<uint64_t>(size_.gpu / kUnit));
}

}  // namespace rt::sim
