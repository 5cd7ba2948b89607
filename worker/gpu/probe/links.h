// Which link of a gang over nodes is slow. When the all-reduce over all nodes has missed its
// bandwidth, each node measures with the node before and the node after it, in the order of
// GROUP_RANK: those are the links that NCCL's rings use. Pairs without a common node measure at
// once, so that two rounds are enough for an even number of nodes, and three for an odd one.
// No CUDA here.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rt::probe {

// Between two nodes, by GROUP_RANK; in what FindSlowLinks says twice the same: between that node
// and all others.
struct LinkRate {
  int node = 0;
  int other = 0;
  double bus_gbps = 0;
};
inline bool operator==(const LinkRate& one, const LinkRate& two) {  // nvcc reads this as C++17.
  return one.node == two.node && one.other == two.other && one.bus_gbps == two.bus_gbps;
}

int RoundsOf(int nodes);
// The pairs that measure in this round, from 0; the first of a pair leads it, and leads no other.
std::vector<std::pair<int, int>> PairsOf(int nodes, int round);

// Names the fewest links that explain the rates below `min_bus_gbps`. A node both of whose links
// are slow is named instead of them, with its best rate. Empty: no link is slow, or most nodes
// would be named, so that the network as a whole is.
std::vector<LinkRate> FindSlowLinks(int nodes, const std::vector<LinkRate>& rates,
                                    double min_bus_gbps);

// "link between nodes 0 and 1 of the gang (3 GB/s), link of node 2 of the gang to all others
// (4 GB/s)"
std::string Describe(const std::vector<LinkRate>& slow);

}  // namespace rt::probe
