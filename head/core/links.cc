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

// Those of them that these members would use. On one node they use none.
std::vector<SlowLink> TooSlowOf(const World& world, const Owner& owner,
                                const std::vector<Member>& members) {
  std::set<NodeId> nodes;
  for (const Member& member : members) nodes.insert(member.node);
  if (nodes.size() < 2) return {};
  std::vector<SlowLink> links = TooSlowFor(world, owner);
  std::erase_if(links, [&](const SlowLink& link) {
    return !nodes.contains(link.node) || (!link.is_of_node() && !nodes.contains(link.other));
  });
  return links;
}

// Whether the all-reduce of a gang on these nodes measures the link.
bool IsMeasured(const std::vector<NodeId>& nodes, const SlowLink& link) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeId next = nodes[(i + 1) % nodes.size()];
    if (nodes[i] != next && link.Has(nodes[i]) && (link.is_of_node() || link.Has(next)))
      return true;
  }
  return false;
}

// The names are in alphabetical order, whichever node joined first.
std::string NameOf(const World& world, const SlowLink& link) {
  const std::string& node = world.state.nodes.at(link.node).name;
  if (link.is_of_node()) return node + " and all others";
  const auto [first, second] = std::minmax(node, world.state.nodes.at(link.other).name);
  return first + " and " + second;
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
std::set<NodeId> AvoidedForLinks(const World& world, const Owner& owner, Millis now) {
  std::set<NodeId> avoided;
  std::vector<SlowLink> links = TooSlowFor(world, owner);
  std::erase_if(links, [&](const SlowLink& link) { return link.retry_at() <= now; });
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
  return !TooSlowOf(world, owner, members).empty();
}

std::string SlowLinksText(const World& world, const Owner& owner) {
  std::vector<std::string> texts;
  for (const SlowLink& link : TooSlowFor(world, owner))
    texts.push_back(NameOf(world, link) + " (" + FormatDouble(link.bus_gbps) + " GB/s)");
  return Join(texts, ", ");
}

std::string RetryText(const World& world, const Owner& owner, Millis now) {
  const std::vector<SlowLink> links = TooSlowFor(world, owner);
  const auto first = std::min_element(
      links.begin(), links.end(),
      [](const SlowLink& one, const SlowLink& other) { return one.retry_at() < other.retry_at(); });
  if (first == links.end()) return "";
  return "; the link between " + NameOf(world, *first) + " is measured anew " +
         (first->retry_at() <= now ? "once its nodes are free"
                                   : "from " + FormatTime(first->retry_at()) + " on") +
         ", if its gang can be placed nowhere else";
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

void NoteMeasuredLinks(Draft& draft, const Observed& observed, const Attempt& live) {
  const AttemptId& id = observed.fence.attempt;
  const double measured = observed.bus_gbps;
  const std::vector<SlowLink> links = draft.state().slow_links;  // A copy: edited below.
  if (links.empty() || observed.fence.rank != 0 || !(measured > 0)) return;
  const std::vector<NodeId> nodes =
      NodesOf(live.members, RanksOf(draft.core.world, id.owner, live));
  for (const SlowLink& link : links) {
    // It repeats with every Sync what it measured before its ranks started.
    if (link.at > live.placed_at || !IsMeasured(nodes, link)) continue;
    if (measured >= link.asked_gbps)
      draft.Emit(event::LinkCleared{link.node, link.other, measured, id});
    else if (measured > link.bus_gbps)
      draft.Emit(event::LinkFoundSlow{link.node, link.other, measured, link.asked_gbps, id});
  }
}

void NoteRetriedLinks(Draft& draft, const AttemptId& id, const std::vector<Member>& members) {
  for (const SlowLink& link : TooSlowOf(draft.core.world, id.owner, members))
    draft.Emit(event::LinkRetried{link.node, link.other, id});
}

void ReviewLinks(Draft& draft) {
  for (const SlowLink& link : draft.state().slow_links) {
    const Millis at = link.retry_at();
    if (at > draft.soft().links_seen_at && at <= draft.now) draft.soft().try_place = true;
  }
  draft.soft().links_seen_at = draft.now;
}

absl::Status ClearLinks(Draft& draft, const Node& node) {
  std::vector<SlowLink> links = draft.state().slow_links;
  std::erase_if(links, [&](const SlowLink& link) { return !link.Has(node.id); });
  if (links.empty())
    return absl::FailedPreconditionError("no link of node " + node.name + " is known to be slow");
  for (const SlowLink& link : links) draft.Emit(event::LinkCleared{link.node, link.other, 0, {}});
  return absl::OkStatus();
}

}  // namespace rt
