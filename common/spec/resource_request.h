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
  // So many consecutive ranks on each node, and each such group on a node of its own, whatever the
  // strategy; 0: the strategy decides.
  uint32_t ranks_per_node = 0;
  Strategy strategy = Strategy::kPack;
  // Of a request whose size the head may change while it runs: its bounds, and `ranks` is a size
  // within them. Both 0: it has the size that it asks for.
  uint32_t ranks_min = 0, ranks_max = 0;
  bool spread_gpus = false;  // Shares of a gpu go to the emptiest device instead of the fullest.
  // The types that its gpus may have (gpu_type.h), the best first. All of them get the first type
  // that has room. Empty: any type.
  std::vector<std::string> gpu_types;

  const Resources& one() const { return bundles.front(); }
  bool is_gang() const { return bundles.size() > 1; }
  bool is_elastic() const { return ranks_max != 0; }
  Resources Total() const;
  // Every rank has a bundle, and the bundles are alike: it can be met with other numbers of ranks.
  bool is_uniform() const;
  ResourceRequest WithRanks(uint32_t count) const;  // It must be uniform.
  // The request for each of the types, as a custom resource of its bundles with gpus; itself if
  // there are none.
  std::vector<ResourceRequest> Alternatives() const;
  // Also of ranks beyond those of a uniform request, which it may grow by.
  const Resources& BundleOf(uint32_t rank) const {
    return bundles[rank < bundles.size() ? rank : bundles.size() - 1];
  }
  friend auto operator<=>(const ResourceRequest&, const ResourceRequest&) = default;
};

// {"cpu":1,"gpu":0.5} and what else ParseResources takes, and beside it
//   "gpu_sharing": "pack" | "spread",
//   "gpu_type": "H100" | ["H200", "H100"]   the types that its gpus may have, the best first;
//   "ranks": 4                        so many programs, each in a bundle of the above;
//   "ranks": [1, 4]                   from 1 to 4 of them, as the head decides: it begins with 1;
//   "ranks_per_node": 2               so many of them on each of their nodes;
// or {"bundles": [{…}, {…}]} instead, with "ranks" of them (all unless said) running a program;
//   "strategy": "PACK" | "SPREAD" | "STRICT_PACK" | "STRICT_SPREAD" in either form.
absl::StatusOr<ResourceRequest> ParseResourceRequest(const Json& json, std::string_view path);
// The total in the form of the read models, with "ranks", and of a gang "bundles" and "strategy".
Json ToJson(const ResourceRequest& request);
// "1 cpu, 0.5 gpus", "4 bundles of 1 cpu (SPREAD)": for sentences.
std::string Describe(const ResourceRequest& request);

}  // namespace rt
