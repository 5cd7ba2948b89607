#include "head/core/apply_gpus.h"

#include <algorithm>

namespace rt {

void NoteCleared(Node& node, const event::GpuCleared& e, Millis at) {
  std::vector<ClearedGpu>& all = node.cleared_gpus;
  std::erase_if(all, [&](const ClearedGpu& one) { return one.uuid == e.uuid; });
  const auto at_or_after = std::find_if(all.begin(), all.end(),
                                        [&](const ClearedGpu& one) { return one.uuid > e.uuid; });
  all.insert(at_or_after, {.uuid = e.uuid, .quarantine = e.quarantine, .probe = e.probe, .at = at});
}

void NoteHeardClears(Node& node) {
  const std::vector<GpuInfo>& gpus = node.inventory.gpus;
  const auto find = [&](const ClearedGpu& cleared) {
    return std::find_if(gpus.begin(), gpus.end(),
                        [&](const GpuInfo& gpu) { return gpu.uuid == cleared.uuid; });
  };
  for (ClearedGpu& cleared : node.cleared_gpus) {
    const auto gpu = find(cleared);
    cleared.heard = gpu != gpus.end() && gpu->quarantine == 0;
  }
  std::erase_if(node.cleared_gpus, [&](const ClearedGpu& cleared) {
    if (cleared.heard) return cleared.probe.empty();
    const auto gpu = find(cleared);
    return gpu == gpus.end() || gpu->quarantine > cleared.quarantine;
  });
}

void NoteFaulty(Node& node, const event::GpuFaultFound& e) {
  std::vector<FaultyGpu>& all = node.faulty_gpus;
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const FaultyGpu& one) { return one.uuid > e.uuid; });
  all.insert(at, {.uuid = e.uuid, .what = e.what});
}

void NoteHeardFaults(Node& node) {
  const std::vector<GpuInfo>& gpus = node.inventory.gpus;
  std::erase_if(node.faulty_gpus, [&](const FaultyGpu& faulty) {
    const auto gpu = std::find_if(gpus.begin(), gpus.end(),
                                  [&](const GpuInfo& one) { return one.uuid == faulty.uuid; });
    return gpu == gpus.end() || gpu->quarantine != 0;
  });
}

}  // namespace rt
