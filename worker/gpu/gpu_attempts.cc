#include "worker/gpu/gpu_attempts.h"

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/strings.h"
#include "common/spec/resources.h"

namespace rt::worker {
namespace {

void AddSample(const GpuSample& sample, GpuUse& use) {
  const auto count = static_cast<double>(++use.samples);
  auto mean = [&](double& value, double more) { value += (more - value) / count; };
  if (sample.utilisation <= 0) ++use.idle_samples;
  const auto busy = static_cast<double>(std::max<int64_t>(0, sample.utilisation));
  mean(use.utilisation_mean, busy);
  use.utilisation_peak = std::max(use.utilisation_peak, busy);
  const Bytes memory = std::max<Bytes>(0, sample.memory_used);
  mean(use.memory_mean, static_cast<double>(memory));
  if (memory >= use.memory_peak) {
    use.memory_peak = memory;
    use.memory_size = std::max<Bytes>(0, sample.memory_total);
  }
  const double watts = static_cast<double>(std::max<int64_t>(0, sample.power_milliwatts)) / 1e3;
  mean(use.power_mean, watts);
  use.power_peak = std::max(use.power_peak, watts);
  use.temperature_peak =
      std::max(use.temperature_peak, static_cast<double>(std::max<int64_t>(0, sample.temperature)));
}

bool Holds(const GpuHolder& holder, const std::string& uuid) {
  return std::find(holder.uuids.begin(), holder.uuids.end(), uuid) != holder.uuids.end();
}

}  // namespace

void GpuAttempts::Begin(const GpuHolder& holder, Millis now) {
  if (holder.uuids.empty()) return;
  Held held;
  held.holder = holder;
  held.began_at = now;
  held.use.devices = static_cast<uint32_t>(holder.uuids.size());
  held_.try_emplace(holder.fence, std::move(held));
}

void GpuAttempts::End(const Fence& fence, Millis now) {
  const auto found = held_.find(fence);
  if (found == held_.end() || found->second.ended_at) return;
  found->second.ended_at = now;
  found->second.given_back = found->second.frozen_at.has_value();  // It had given them back.
}

void GpuAttempts::SetFrozen(const Fence& fence, bool frozen, Millis now) {
  const auto found = held_.find(fence);
  if (found == held_.end() || found->second.frozen_at.has_value() == frozen) return;
  Held& held = found->second;
  if (frozen) {
    held.frozen_at = now;
  } else {
    held.frozen_for += now - *held.frozen_at;
    held.frozen_at.reset();
  }
}

void GpuAttempts::Add(const std::vector<GpuSample>& samples) {
  for (auto& [fence, held] : held_) {
    if (held.ended_at || held.frozen_at) continue;
    for (const GpuSample& sample : samples)
      if (Holds(held.holder, sample.uuid)) AddSample(sample, held.use);
  }
}

std::vector<Fence> GpuAttempts::NoteFault(const std::vector<std::string>& uuids,
                                          const std::string& why) {
  std::vector<Fence> struck;
  for (auto& [fence, held] : held_) {
    const GpuHolder& holder = held.holder;
    const bool is_there = std::any_of(uuids.begin(), uuids.end(),
                                      [&](const std::string& uuid) { return Holds(holder, uuid); });
    if (!is_there || held.given_back || held.frozen_at) continue;
    if (held.fault.empty()) held.fault = why;
    struck.push_back(fence);
  }
  return struck;
}

void GpuAttempts::NoteFaultOf(const Fence& fence, const std::string& why) {
  const auto held = held_.find(fence);
  if (held != held_.end() && held->second.fault.empty()) held->second.fault = why;
}

GpuUse GpuAttempts::UseOf(const Fence& fence, Millis now) const {
  const auto found = held_.find(fence);
  if (found == held_.end()) return {};
  const Held& held = found->second;
  GpuUse use = held.use;
  const Millis until = held.frozen_at.value_or(held.ended_at.value_or(now));
  const Millis time = std::max<Millis>(0, until - held.began_at - held.frozen_for);
  const int64_t units =
      std::min<int64_t>(kUnit, held.holder.units == 0 ? kUnit : held.holder.units);
  use.device_ms = static_cast<Millis>(use.devices) * time * units / kUnit;
  return use;
}

std::string GpuAttempts::FaultOf(const Fence& fence) const {
  const auto found = held_.find(fence);
  return found == held_.end() ? "" : found->second.fault;
}

std::vector<std::string> GpuAttempts::WholeOf(const Fence& fence) const {
  const auto found = held_.find(fence);
  const bool is_whole = found != held_.end() && found->second.holder.units % kUnit == 0;
  return is_whole ? found->second.holder.uuids : std::vector<std::string>{};
}

bool GpuAttempts::IsGivenBack(const Fence& fence) const {
  const auto found = held_.find(fence);
  return found == held_.end() || found->second.given_back;
}

std::vector<GpuAttempts::Ending> GpuAttempts::Endings() const {
  std::vector<Ending> endings;
  for (const auto& [fence, held] : held_)
    if (held.ended_at && !held.given_back) endings.push_back({held.holder, *held.ended_at});
  return endings;
}

void GpuAttempts::NoteGivenBack(const Fence& fence) {
  const auto found = held_.find(fence);
  if (found != held_.end()) found->second.given_back = true;
}

bool GpuAttempts::IsHeld(const std::string& uuid) const {
  return std::any_of(held_.begin(), held_.end(), [&](const auto& one) {
    return !one.second.given_back && !one.second.frozen_at && Holds(one.second.holder, uuid);
  });
}

std::string GpuAttempts::AttemptOf(const std::string& token) const {
  for (const auto& [fence, held] : held_)
    if (!token.empty() && held.holder.token == token) return ToString(fence);
  return "";
}

Leftover FindLeftover(const GpuHolders& now, const std::optional<GpuHolders>& idle,
                      const std::set<uint64_t>& own, bool is_shared) {
  Leftover left;
  for (const GpuProcess& process : now.processes) {
    if (own.contains(process.pid)) {
      left.own.push_back(process);
      continue;
    }
    if (is_shared || !idle) continue;
    const bool was_there =
        std::any_of(idle->processes.begin(), idle->processes.end(),
                    [&](const GpuProcess& one) { return one.pid == process.pid; });
    if (!was_there) left.foreign.push_back(process);
  }
  if (is_shared || !idle) return left;
  const Bytes beyond = now.used - idle->used;
  if (beyond > limits::kGpuFreeSlack) left.memory = beyond;
  return left;
}

std::string DescribeLeftover(const Fence& fence, const Leftover& left) {
  Bytes memory = left.memory;
  std::vector<std::string> names;
  for (const auto* list : {&left.own, &left.foreign})
    for (const GpuProcess& one : *list) {
      names.push_back("pid " + std::to_string(one.pid) +
                      (one.name.empty() ? "" : " (" + one.name + ")"));
      if (left.memory == 0) memory += one.memory;
    }
  return BytesText(memory) + " of its memory is in use after " + ToString(fence) + " has ended" +
         (names.empty() ? "" : ", by " + Join(names, ", "));
}

}  // namespace rt::worker
