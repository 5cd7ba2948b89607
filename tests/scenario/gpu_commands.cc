#include "tests/scenario/gpu_commands.h"

#include <cstring>

#include "tests/scenario/words.h"

namespace rt::scenario {

void NameGpus(NodeInventory& inventory, std::istream& words) {
  const std::string index = Next<std::string>(words);
  const std::string number = Next<std::string>(words);
  const auto offered = static_cast<size_t>(inventory.resources.gpu / kUnit);
  const size_t count = inventory.gpus.empty() ? offered : inventory.gpus.size();
  inventory.gpus.clear();
  for (uint32_t i = 0; i < count; ++i) {
    GpuInfo& gpu = inventory.gpus.emplace_back();
    gpu.index = i;
    gpu.uuid = "GPU-" + std::to_string(i);
  }
  inventory.resources.gpu = static_cast<int64_t>(count) * kUnit;
  if (index.empty()) return;
  GpuInfo& gpu = inventory.gpus.at(std::stoul(index));
  gpu.quarantine = number == "-" ? 0 : std::stoull(number);
  gpu.fault = Rest(words);
  if (gpu.by_hand = gpu.fault.starts_with("by_hand "); gpu.by_hand)
    gpu.fault = gpu.fault.substr(std::strlen("by_hand "));
  inventory.resources.gpu -= kUnit;
}

input::UndrainNode ClearFrom(NodeId node, std::istream& words) {
  const std::string gpu = Next<std::string>(words);
  return {node, gpu, Rest(words)};
}

input::QuarantineGpu FaultFrom(NodeId node, std::istream& words) {
  const std::string gpu = Next<std::string>(words);
  return {node, gpu, Rest(words)};
}

}  // namespace rt::scenario
