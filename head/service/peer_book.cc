#include "head/service/peer_book.h"

#include <algorithm>
#include <tuple>

namespace rt {
namespace {

constexpr size_t kSourcesMax = 2;
constexpr size_t kChildrenMax = 2;
// Workers say what they have every 30 s.
constexpr Millis kSilentFor = 100'000;

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

std::vector<PeerBook::Source> PeerBook::Find(const Ask& ask, const std::set<NodeId>& alive,
                                             Millis now) {
  std::lock_guard lock(mutex_);
  ForgetSilent(now);
  Remove(ask.asker, ask.manifest);  // A fetch that it began before is over.
  std::map<NodeId, size_t> children;
  auto found = copies_.find(ask.manifest);
  Copies copies = found == copies_.end() ? Copies{} : found->second;
  for (NodeId holder : ask.replicas)
    if (holder != ask.asker) copies[holder].whole = true;
  for (const auto& [node, copy] : copies)
    if (!copy.whole) ++children[copy.parent];
  // First those that can take one more, then the same machine, then whole trees, then the least
  // busy.
  using Rank = std::tuple<bool, bool, bool, size_t, uint64_t>;
  std::vector<std::pair<Rank, NodeId>> ranked;
  for (const auto& [node, copy] : copies) {
    if (!alive.contains(node) || !MayServe(node)) continue;
    const bool elsewhere = HostOf(nodes_.at(node).address) != HostOf(ask.address);
    ranked.push_back({{children[node] >= kChildrenMax, elsewhere, !copy.whole, children[node],
                       copy.order}, node});
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<Source> sources;
  for (size_t i = 0; i < std::min(ranked.size(), kSourcesMax); ++i)
    sources.push_back({ranked[i].second, nodes_.at(ranked[i].second).address});
  nodes_[ask.asker].address = ask.address;
  nodes_[ask.asker].said_at = now;
  Put(ask.asker, ask.manifest, {.order = next_order_++,
                                .parent = sources.empty() ? NodeId{} : sources.front().node});
  return sources;
}

std::optional<PeerBook::Source> PeerBook::FindHolder(NodeId asker, const std::string& address,
                                                     const std::set<NodeId>& alive, Millis now) {
  std::lock_guard lock(mutex_);
  ForgetSilent(now);
  using Rank = std::tuple<bool, size_t, NodeId>;
  std::optional<Rank> best;
  for (const auto& [node, said] : nodes_) {
    if (node == asker || !alive.contains(node) || !MayServe(node)) continue;
    const bool is_same = HostOf(said.address) == HostOf(address);
    const Rank rank{is_same, said.manifests.size(), node};
    if (!best || rank < *best) best = rank;
  }
  if (!best) return std::nullopt;
  const NodeId node = std::get<2>(*best);
  return Source{node, nodes_.at(node).address};
}

std::optional<PeerBook::Source> PeerBook::AddressOf(NodeId node) {
  std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || found->second.address.empty()) return std::nullopt;
  return Source{node, found->second.address};
}

void PeerBook::Announce(NodeId node, const Announced& announced, Millis now) {
  std::lock_guard lock(mutex_);
  for (NodeId failed : announced.failed) Forget(failed);
  Node& said = nodes_[node];
  said.address = announced.address;
  said.said_at = now;
  const std::set<std::string> whole(announced.whole.begin(), announced.whole.end());
  const std::set<std::string> fetching(announced.fetching.begin(), announced.fetching.end());
  for (const std::string& manifest : std::set<std::string>(said.manifests))
    if (!whole.contains(manifest) && !fetching.contains(manifest)) Remove(node, manifest);
  for (const std::string& manifest : whole) Put(node, manifest, {.whole = true});
}

bool PeerBook::MayServe(NodeId node) const {
  auto found = nodes_.find(node);
  return found != nodes_.end() && !found->second.address.empty();
}

void PeerBook::Put(NodeId node, const std::string& manifest, const Copy& copy) {
  Node& of = nodes_[node];
  const bool is_new = of.manifests.insert(manifest).second;
  if (is_new && (of.manifests.size() > limits::kAnnouncedTreesPerNode ||
                 count_ >= limits::kAnnouncedTreesMax)) {
    of.manifests.erase(manifest);
    return;
  }
  if (is_new) ++count_;
  copies_[manifest][node] = copy;
}

void PeerBook::Remove(NodeId node, const std::string& manifest) {
  auto of = nodes_.find(node);
  if (of == nodes_.end() || of->second.manifests.erase(manifest) == 0) return;
  --count_;
  auto found = copies_.find(manifest);
  found->second.erase(node);
  if (found->second.empty()) copies_.erase(found);
}

void PeerBook::Forget(NodeId node) {
  auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  for (const std::string& manifest : std::set<std::string>(found->second.manifests))
    Remove(node, manifest);
  nodes_.erase(node);
}

void PeerBook::ForgetSilent(Millis now) {
  std::vector<NodeId> silent;
  for (const auto& [node, said] : nodes_)
    if (now - said.said_at >= kSilentFor) silent.push_back(node);
  for (NodeId node : silent) Forget(node);
}

}  // namespace rt
