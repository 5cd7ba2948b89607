#include "common/spec/gpu_facts.h"

#include <algorithm>

namespace rt {

GpuUse Together(const GpuUse& one, const GpuUse& other) {
  GpuUse all = one.memory_peak >= other.memory_peak ? one : other;
  const double share = static_cast<double>(one.samples);
  const double others = static_cast<double>(other.samples);
  auto mean = [&](double a, double b) {
    return share + others == 0 ? 0 : (a * share + b * others) / (share + others);
  };
  all.devices = one.devices + other.devices;
  all.samples = one.samples + other.samples;
  all.idle_samples = one.idle_samples + other.idle_samples;
  all.device_ms = one.device_ms + other.device_ms;
  all.utilisation_mean = mean(one.utilisation_mean, other.utilisation_mean);
  all.memory_mean = mean(one.memory_mean, other.memory_mean);
  all.power_mean = mean(one.power_mean, other.power_mean);
  all.utilisation_peak = std::max(one.utilisation_peak, other.utilisation_peak);
  all.power_peak = std::max(one.power_peak, other.power_peak);
  all.temperature_peak = std::max(one.temperature_peak, other.temperature_peak);
  return all;
}

// The bits are those of nvml.h (nvmlClocksEventReason…).
std::vector<std::string> ThrottleNames(int64_t bits) {
  struct Name {
    int64_t bit;
    const char* name;
  };
  constexpr Name kNames[] = {{0x04, "power"},   {0x08, "hardware"},         {0x10, "sync_boost"},
                             {0x20, "thermal"}, {0x40, "hardware_thermal"}, {0x80, "power_brake"}};
  std::vector<std::string> names;
  for (const Name& one : kNames)
    if (bits > 0 && (bits & one.bit) != 0) names.emplace_back(one.name);
  return names;
}

}  // namespace rt
