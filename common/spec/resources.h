// What a trial or a job asks for and what a node has: cpus, gpus, memory and custom resources.
// Fractions are exact: cpu, gpu and custom amounts are whole numbers of 1/10 000.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/fields.h"
#include "common/base/json.h"
#include "common/base/time.h"

namespace rt {

inline constexpr int64_t kUnit = 10'000;  // Units in one cpu, gpu or custom resource.

struct Resources {
  int64_t cpu = 0;  // Units.
  int64_t gpu = 0;  // Units; above one gpu only whole gpus.
  Bytes memory = 0;
  std::map<std::string, int64_t> custom;  // Name -> units; no entry is zero.

  bool Fits(const Resources& free) const;  // Whether this can be taken from `free`.
  void Add(const Resources& other);
  void Subtract(const Resources& other);  // Must fit.
  bool IsZero() const { return cpu == 0 && gpu == 0 && memory == 0 && custom.empty(); }
  friend auto operator<=>(const Resources&, const Resources&) = default;
  RT_FIELDS(Resources, cpu, gpu, memory, custom);
};

// {"cpu":2,"gpu":0.5,"memory_bytes":0,"custom":{"tpu":1}}: the form of the read models.
Json ToJson(const Resources& resources);
// A request: {"cpu":2,"gpu":1,"memory":"8GiB","tpu":1} or {"custom":{"tpu":1}}, in any letter case
// for CPU and GPU (Ray's spelling). Negative and non-finite amounts are refused.
absl::StatusOr<Resources> ParseResources(const Json& json, std::string_view path);
// "cpu=2,gpu=1,memory=8GiB,fpga=1": the flag of rt-worker. Every name but cpu, gpu and memory is
// that of a resource of one's own, also "custom".
absl::StatusOr<Resources> ParseResourcesFlag(std::string_view text);
// The same of resources; kinds of which there is nothing are left out, but for cpu.
std::string ToFlag(const Resources& resources);
// "2 cpus, 1 gpu, 8 GiB memory": for sentences. "nothing" when zero.
std::string Describe(const Resources& resources);
// "0 of 4 cpu free, 1 of 2 gpu free": the parts of `wanted` that `available` lacks, of a node that
// has `total`; without names where only cpus are wanted. "" when nothing is lacking.
std::string DescribeShortage(const Resources& wanted, const Resources& available,
                             const Resources& total);
// 20000 -> "2", 5000 -> "0.5".
std::string FormatUnits(int64_t units);

}  // namespace rt
