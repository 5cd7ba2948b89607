#include "head/core/links.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

std::vector<SlowLink> TooSlowFor(const World& world, const Owner& owner) {
  std::vector<SlowLink> links;
  if (world.state.slow_links.empty() || !RequestOf(world, owner).is_gang()) return links;
  const double asked = AskedOfLinks(world, owner);
  for (const SlowLink& link : world.state.slow_links)
    if (link.bus_gbps < asked) links.push_back(link);
  return links;
}

// Those of the gang's ranks, in the order of GROUP_RANK: by first appearance.
std::vector<NodeId> NodesOf(const std::vector<Member>& members, uint32_t ranks) {
  std::vector<NodeId> nodes;
  for (uint32_t rank = 0; rank < ranks && rank < members.size(); ++rank)
    if (std::find(nodes.begin(), nodes.end(), members[rank].node) == nodes.end())
      nodes.push_back(members[rank].node);
  return nodes;
}

auto FindLink(const std::vector<SlowLink>& links, NodeId node, NodeId other) {
  return std::find_if(links.begin(), links.end(), [&](const SlowLink& link) {
    return link.node == node && link.other == other;
  });
}

bool IsSame(const SlowLink& known, const ObservedLink& link, double asked) {
  return known.bus_gbps == link.bus_gbps && known.asked_gbps >= asked;
}

}  // namespace

double AskedOfLinks(const World& world, const Owner& owner) {
  const ExperimentIndex* experiment = ExperimentOf(world, owner);
  return experiment == nullptr ? 0 : experiment->spec.preflight.min_bus_gbps;
}

// The node with the most of them goes first: that leaves the most nodes.
std::set<NodeId> AvoidedForLinks(const World& world, const Owner& owner) {
  std::set<NodeId> avoided;
  std::vector<SlowLink> links = TooSlowFor(world, owner);
  for (const SlowLink& link : links)
    if (link.is_of_node()) avoided.insert(link.node);
  for (;;) {
    std::erase_if(links, [&](const SlowLink& link) {
      return avoided.contains(link.node) || avoided.contains(link.other);
    });
    std::map<NodeId, size_t> counts;
    for (const SlowLink& link : links) {
      ++counts[link.node];
      ++counts[link.other];
    }
    if (counts.empty()) return avoided;
    const auto most =
        std::max_element(counts.begin(), counts.end(), [](const auto& one, const auto& other) {
          return std::pair(one.second, one.first) < std::pair(other.second, other.first);
        });
    avoided.insert(most->first);
  }
}

bool UseSlowLink(const World& world, const Owner& owner, const std::vector<Member>& members) {
  std::set<NodeId> nodes;
  for (const Member& member : members) nodes.insert(member.node);
  if (nodes.size() < 2) return false;
  const std::vector<SlowLink> links = TooSlowFor(world, owner);
  return std::any_of(links.begin(), links.end(), [&](const SlowLink& link) {
    return nodes.contains(link.node) && (link.is_of_node() || nodes.contains(link.other));
  });
}

std::string SlowLinksText(const World& world, const Owner& owner) {
  std::vector<std::string> texts;
  for (const SlowLink& link : TooSlowFor(world, owner)) {
    const std::string other =
        link.is_of_node() ? "all others" : world.state.nodes.at(link.other).name;
    texts.push_back(world.state.nodes.at(link.node).name + " and " + other + " (" +
                    FormatDouble(link.bus_gbps) + " GB/s)");
  }
  return Join(texts, ", ");
}

void NoteSlowLinks(Draft& draft, const Observed& observed, const Attempt& live) {
  const Owner& owner = observed.fence.attempt.owner;
  const double asked = AskedOfLinks(draft.core.world, owner);
  const std::vector<NodeId> nodes = NodesOf(live.members, RanksOf(draft.core.world, owner, live));
  for (const ObservedLink& link : observed.slow_links) {
    const bool is_known = link.node < nodes.size() && link.other < nodes.size();
    if (!is_known || !(link.bus_gbps >= 0 && link.bus_gbps < asked)) continue;
    NodeId node = nodes[link.node], other = nodes[link.other];
    if (node == other) other = {};
    else if (other < node) std::swap(node, other);
    const std::vector<SlowLink>& all = draft.state().slow_links;
    const auto known = FindLink(all, node, other);
    if (known != all.end() && IsSame(*known, link, asked)) continue;
    draft.Emit(event::LinkFoundSlow{node, other, link.bus_gbps, asked, observed.fence.attempt});
  }
}

absl::Status ClearLinks(Draft& draft, const Node& node) {
  std::vector<SlowLink> links = draft.state().slow_links;
  std::erase_if(links, [&](const SlowLink& link) { return !link.Has(node.id); });
  if (links.empty())
    return absl::FailedPreconditionError("no link of node " + node.name + " is known to be slow");
  for (const SlowLink& link : links) draft.Emit(event::LinkCleared{link.node, link.other});
  return absl::OkStatus();
}

}  // namespace rt
