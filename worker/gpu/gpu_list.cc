#include "worker/gpu/gpu_list.h"

#include <algorithm>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/gpu_type.h"
#include "common/spec/resources.h"

namespace rt::worker {
namespace {

// As CUDA reads it: numbers, or beginnings of uuids; the first that names no gpu hides the rest.
std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& all, const std::string& visible) {
  std::vector<Gpu> chosen;
  for (const std::string& part : Split(visible, ',')) {
    const std::string name(Trim(part));
    auto is_named = [&](const Gpu& gpu) {
      return name == std::to_string(gpu.index) ||
             (name.size() > 4 && gpu.facts.uuid.starts_with(name));
    };
    auto gpu = std::find_if(all.begin(), all.end(), is_named);
    if (gpu == all.end()) break;
    chosen.push_back(*gpu);
  }
  return chosen;
}

std::vector<Gpu> Slice(const std::vector<Gpu>& gpus, size_t first, size_t end) {
  return {gpus.begin() + static_cast<int64_t>(first), gpus.begin() + static_cast<int64_t>(end)};
}

std::vector<Gpu> UnnamedGpus(size_t count) {
  std::vector<Gpu> gpus;
  for (uint32_t index = 0; index < count; ++index) {
    Gpu& gpu = gpus.emplace_back();
    gpu.index = index;
    gpu.facts.uuid = std::to_string(index);
    gpu.facts.name = "gpu";
  }
  return gpus;
}

}  // namespace

std::vector<Gpu> NumberGpus(std::vector<Gpu> known, const std::vector<FoundGpu>& found) {
  for (Gpu& gpu : known) {
    auto same = std::find_if(found.begin(), found.end(),
                             [&](const FoundGpu& one) { return one.uuid == gpu.facts.uuid; });
    if (same != found.end()) gpu.facts = *same;
    else gpu.facts.fault = "NVML no longer lists it: it fell off the bus, or was taken away";
  }
  for (const FoundGpu& one : found) {
    const bool is_known = std::any_of(known.begin(), known.end(),
                                      [&](const Gpu& gpu) { return gpu.facts.uuid == one.uuid; });
    if (!is_known) known.push_back({.index = static_cast<uint32_t>(known.size()), .facts = one});
  }
  return known;
}

std::string CommonType(const std::vector<Gpu>& gpus) {
  std::string type;
  for (const Gpu& gpu : gpus) {
    const std::string one = GpuTypeOf(gpu.facts.name);
    if (!type.empty() && one != type) return "";
    type = one;
  }
  return type;
}

std::string RememberGpus(const std::vector<Gpu>& gpus, const std::string& boot_id) {
  Json list = Json::MakeArray();
  for (const Gpu& gpu : gpus) {
    list.Append(Json::MakeObject(
        {{"uuid", gpu.facts.uuid}, {"name", gpu.facts.name}, {"memory", gpu.facts.memory}}));
  }
  return Json::MakeObject({{"boot_id", boot_id}, {"gpus", std::move(list)}}).Dump();
}

std::vector<Gpu> RecallGpus(const std::string& text, const std::string& boot_id) {
  std::vector<Gpu> gpus;
  auto json = Json::Parse(text);
  if (!json.ok() || !json->is_object() || json->GetString("boot_id") != boot_id) return gpus;
  const Json* list = json->Find("gpus");
  if (list == nullptr || !list->is_array()) return gpus;
  for (const Json& one : list->array()) {
    Gpu gpu{.index = static_cast<uint32_t>(gpus.size()), .facts = {}};
    gpu.facts.uuid = one.GetString("uuid");
    gpu.facts.name = one.GetString("name");
    gpu.facts.memory = one.GetInt("memory");
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

absl::StatusOr<std::vector<Gpu>> ChooseGpus(const std::vector<Gpu>& all, const GpuChoice& choice) {
  std::vector<Gpu> chosen = choice.visible ? VisibleGpus(all, *choice.visible) : all;
  if (!choice.units.has_value()) {
    const size_t first = chosen.size() * choice.share / choice.shares;
    return Slice(chosen, first, chosen.size() * (choice.share + 1) / choice.shares);
  }
  const auto wanted = static_cast<size_t>((*choice.units + kUnit - 1) / kUnit);
  if (all.empty()) return UnnamedGpus(wanted);
  const size_t first = wanted * choice.share;
  if (first + wanted > chosen.size()) {
    return Invalid("--resources says gpu=" + FormatUnits(*choice.units) + "; of the " +
                       std::to_string(chosen.size()) +
                       " gpus that there are, other workers of "
                       "this machine have " +
                       std::to_string(first),
                   "leave gpu= out to offer what is there");
  }
  return Slice(chosen, first, first + wanted);
}

int64_t GpuUnits(const std::vector<Gpu>& gpus, const GpuChoice& choice) {
  int64_t units = 0;
  for (const Gpu& gpu : gpus) units += gpu.facts.fault.empty() ? kUnit : 0;
  return choice.units ? std::min(units, *choice.units) : units;
}

}  // namespace rt::worker
