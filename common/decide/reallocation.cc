#include "common/decide/reallocation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rt {
namespace {

// How often `unit` is in these amounts, rounded down; below 0 where one of them is.
int64_t CountIn(int64_t cpu, int64_t gpu, const Resources& unit) {
  const auto times = [](int64_t amount, int64_t each) {
    return amount / each - (amount % each < 0 ? 1 : 0);
  };
  int64_t count = std::numeric_limits<int64_t>::max();
  if (unit.cpu > 0) count = times(cpu, unit.cpu);
  if (unit.gpu > 0) count = std::min(count, times(gpu, unit.gpu));
  return unit.cpu > 0 || unit.gpu > 0 ? count : 0;
}

bool IsLimited(const ReallocationSpec& spec) { return spec.increase_by_times > 0; }

// The best trial that may still grow, or the best one of all. Equal ones: the first.
uint32_t TopOf(const ReallocationSpec& spec, const ResourceRequest& base,
               const std::vector<ReallocatedTrial>& trials) {
  const auto value = [&](const ReallocatedTrial& trial) {
    if (std::isnan(trial.score)) return -std::numeric_limits<double>::infinity();
    return spec.is_max ? trial.score : -trial.score;
  };
  std::vector<const ReallocatedTrial*> sorted;
  for (const ReallocatedTrial& trial : trials) sorted.push_back(&trial);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto* a, const auto* b) { return value(*a) > value(*b); });
  for (const ReallocatedTrial* trial : sorted)
    if (!IsLimited(spec) || AddedUnits(spec, base, trial->request) < spec.increase_by_times)
      return trial->number;
  return sorted.front()->number;
}

}  // namespace

Resources ReallocationUnit(const ReallocationSpec& spec, const ResourceRequest& base) {
  Resources unit;
  if (!spec.increase_by.IsZero()) {
    unit = spec.increase_by;
  } else if (spec.add_bundles) {
    unit.cpu = base.bundles.back().cpu;
    unit.gpu = base.bundles.back().gpu;
  } else if (base.one().gpu > 0 && base.one().gpu % kUnit == 0) {
    unit.gpu = kUnit;
  } else {
    unit.cpu = kUnit;
  }
  return unit;
}

int64_t AddedUnits(const ReallocationSpec& spec, const ResourceRequest& base,
                   const ResourceRequest& request) {
  if (spec.add_bundles)
    return static_cast<int64_t>(request.bundles.size()) - static_cast<int64_t>(base.bundles.size());
  const Resources unit = ReallocationUnit(spec, base);
  return unit.cpu > 0 ? (request.one().cpu - base.one().cpu) / unit.cpu
                      : (request.one().gpu - base.one().gpu) / unit.gpu;
}

ResourceRequest WithAddedUnits(const ReallocationSpec& spec, const ResourceRequest& base,
                               int64_t units) {
  const Resources unit = ReallocationUnit(spec, base);
  ResourceRequest request = base;
  if (!spec.add_bundles) {
    request.bundles.front().cpu += units * unit.cpu;
    request.bundles.front().gpu += units * unit.gpu;
    return request;
  }
  Resources added = base.bundles.back();
  if (!spec.increase_by.IsZero()) added = unit;
  request.bundles.insert(request.bundles.end(), static_cast<size_t>(units), added);
  // Where each bundle has a rank, each one that is added has one, too.
  if (base.ranks > 1 && base.ranks == base.bundles.size())
    request.ranks = static_cast<uint32_t>(request.bundles.size());
  return request;
}

int64_t UnitsFor(const ReallocationSpec& spec, const ResourceRequest& base,
                 const Resources& available, const std::vector<ReallocatedTrial>& trials,
                 uint32_t number) {
  const auto own = std::find_if(trials.begin(), trials.end(), [&](const ReallocatedTrial& trial) {
    return trial.number == number;
  });
  if (own == trials.end()) return 0;
  const int64_t added = AddedUnits(spec, base, own->request);
  int64_t cpu = available.cpu - spec.reserve.cpu, gpu = available.gpu - spec.reserve.gpu;
  const auto count = static_cast<int64_t>(trials.size());
  const Resources unit = ReallocationUnit(spec, base), least = base.Total();
  // The units that remain when each trial has only the resources that it began with.
  const int64_t shared =
      std::max<int64_t>(0, CountIn(cpu - count * least.cpu, gpu - count * least.gpu, unit));
  for (const ReallocatedTrial& trial : trials) {
    const Resources has = trial.request.Total();
    cpu -= has.cpu;
    gpu -= has.gpu;
  }
  const int64_t free = CountIn(cpu, gpu, unit);
  if (free < 0) return std::max<int64_t>(0, added + free);
  if (spec.kind == ReallocationSpec::Kind::kTop && TopOf(spec, base, trials) != number)
    return added;
  int64_t most = std::numeric_limits<int64_t>::max();
  if (spec.kind == ReallocationSpec::Kind::kEven) most = (shared + count - 1) / count;
  if (IsLimited(spec)) most = std::min(most, spec.increase_by_times);
  return std::max(added, std::min(added + free, most));
}

}  // namespace rt
