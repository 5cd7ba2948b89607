// Which nodes the ranks of elastic jobs get on a cluster of equal nodes: a job within a node shares
// it with others, a larger one has whole nodes, so that no two jobs share a network link. A job
// keeps its nodes while its size stays, unless nothing else makes its neighbour fit. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rt {

// The node of each rank, ascending; empty: the job has none.
using RankNodes = std::vector<uint32_t>;

struct SubmeshCluster {
  size_t nodes = 0;
  size_t ranks_per_node = 1;
};

// `held`: the nodes of each job now. `sizes`: below ranks_per_node, or a multiple of it; together
// at most what the cluster has. A size that fits nowhere gets nothing.
std::vector<RankNodes> PlaceSubmeshes(const SubmeshCluster& cluster,
                                      const std::vector<RankNodes>& held,
                                      const std::vector<uint32_t>& sizes);

}  // namespace rt
