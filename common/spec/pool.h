// A pool as the configuration describes it: nodes of one shape that a provider can create and
// delete. The head keeps between `min_workers` and `max_workers` of them, by demand. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/time.h"
#include "common/spec/resources.h"

namespace rt {

// The gpus of a node that the configuration will bring and of which only itself will know how many
// it has: as many as a node may ever have.
inline constexpr int64_t kAnyGpus = 1'024 * kUnit;

struct PoolSpec {
  std::string name;
  Resources each;  // Of one node; the gpus may be kAnyGpus.
  uint32_t min_workers = 0;
  uint32_t max_workers = 0;
  Millis idle_timeout = 300'000;  // After this long without work a node is released.
  // While n nodes are ready, at most max(5, upscaling_speed * n) more are on their way (Ray's
  // rule); min_workers are exempt.
  double upscaling_speed = 1;
  friend bool operator==(const PoolSpec&, const PoolSpec&) = default;
};

// Why a provider did not do what it was asked. Journalled by number: the meanings never change.
enum class ProviderError : uint32_t {
  kNone = 0,
  // The answer is missing, or the provider is busy. It may have done it: List decides.
  kRetryLater = 1,
  kCapacity = 2,          // There is no such machine to be had now.
  kQuota = 3,             // The account has reached a bound.
  kBadConfiguration = 4,  // The request can never succeed.
  kNotOurs = 5,           // What was named does not carry the tag of this cluster.
};
// For sentences: "no capacity", "quota".
const char* NameOf(ProviderError error);

}  // namespace rt
