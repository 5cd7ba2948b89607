// What one attempt asks for: bundles of resources, all or nothing. Rank r, a program of its own,
// runs in bundle r; bundles beyond the ranks are held for rank 0's use. A plain request is one
// bundle for one rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/spec/resources.h"

namespace rt {

enum class Strategy : uint8_t {
  kPack,          // On as few nodes as possible.
  kSpread,        // On as many nodes as possible.
  kStrictPack,    // On one node.
  kStrictSpread,  // Each on a node of its own.
};

struct ResourceRequest {
  std::vector<Resources> bundles = std::vector<Resources>(1);  // At least one.
  uint32_t ranks = 1;  // From 1 to the number of bundles.
  Strategy strategy = Strategy::kPack;
  bool spread_gpus = false;  // Shares of a gpu go to the emptiest device instead of the fullest.

  const Resources& one() const { return bundles.front(); }
  bool is_gang() const { return bundles.size() > 1; }
  Resources Total() const;
  // Every rank has a bundle, and the bundles are alike: it can be met with other numbers of ranks.
  bool is_uniform() const;
  ResourceRequest WithRanks(uint32_t count) const;  // It must be uniform.
  // Also of ranks beyond those of a uniform request, which it may grow by.
  const Resources& BundleOf(uint32_t rank) const {
    return bundles[rank < bundles.size() ? rank : bundles.size() - 1];
  }
  friend auto operator<=>(const ResourceRequest&, const ResourceRequest&) = default;
};

// {"cpu":1,"gpu":0.5} and what else ParseResources takes, and beside it
//   "gpu_sharing": "pack" | "spread",
//   "ranks": 4                        so many programs, each in a bundle of the above;
// or {"bundles": [{…}, {…}]} instead, with "ranks" of them (all unless said) running a program;
//   "strategy": "PACK" | "SPREAD" | "STRICT_PACK" | "STRICT_SPREAD" in either form.
absl::StatusOr<ResourceRequest> ParseResourceRequest(const Json& json, std::string_view path);
// The total in the form of the read models, with "ranks", and of a gang "bundles" and "strategy".
Json ToJson(const ResourceRequest& request);
// "1 cpu, 0.5 gpus", "4 bundles of 1 cpu (SPREAD)": for sentences.
std::string Describe(const ResourceRequest& request);

}  // namespace rt
