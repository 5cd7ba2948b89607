#include "worker/gpu/probe/links.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace rt::probe {
namespace {

// Leads the link to the node after it. Two nodes have one link.
int LinksOf(int nodes) { return nodes < 3 ? nodes - 1 : nodes; }

bool Touches(const LinkRate& link, int node) { return link.node == node || link.other == node; }

}  // namespace

int RoundsOf(int nodes) {
  if (nodes < 3) return nodes - 1;
  return nodes % 2 == 0 ? 2 : 3;
}

std::vector<std::pair<int, int>> PairsOf(int nodes, int round) {
  std::vector<std::pair<int, int>> pairs;
  for (int node = 0; node < LinksOf(nodes); ++node) {
    const bool is_last_of_odd = nodes % 2 != 0 && node == nodes - 1;
    if ((is_last_of_odd ? 2 : node % 2) == round) pairs.emplace_back(node, (node + 1) % nodes);
  }
  return pairs;
}

std::vector<LinkRate> FindSlowLinks(int nodes, const std::vector<LinkRate>& rates,
                                    double min_bus_gbps) {
  std::vector<LinkRate> slow, named;
  std::copy_if(rates.begin(), rates.end(), std::back_inserter(slow),
               [&](const LinkRate& link) { return link.bus_gbps < min_bus_gbps; });
  for (int node = 0; node < nodes; ++node) {
    double best = 0;
    int links = 0;
    for (const LinkRate& link : slow) {
      if (!Touches(link, node)) continue;
      best = std::max(best, link.bus_gbps);
      ++links;
    }
    if (links == 2) named.push_back({node, node, best});
  }
  if (2 * named.size() > static_cast<size_t>(nodes)) return {};
  const std::vector<LinkRate> of_nodes = named;
  for (const LinkRate& link : slow)
    if (std::none_of(of_nodes.begin(), of_nodes.end(),
                     [&](const LinkRate& one) { return Touches(link, one.node); }))
      named.push_back(link);
  return named;
}

std::string Describe(const std::vector<LinkRate>& slow) {
  std::string text;
  for (const LinkRate& link : slow) {
    char rate[32];
    std::snprintf(rate, sizeof rate, " (%.3g GB/s)", link.bus_gbps);
    const std::string node = std::to_string(link.node);
    text += (text.empty() ? "" : ", ") +
            (link.node == link.other ? "link of node " + node + " of the gang to all others"
                                     : "link between nodes " + node + " and " +
                                           std::to_string(link.other) + " of the gang") +
            rate;
  }
  return text;
}

}  // namespace rt::probe
