#include "common/elastic/submesh.h"

#include <algorithm>
#include <optional>

namespace rt {
namespace {

class Board {
 public:
  Board(const SubmeshCluster& cluster, const std::vector<uint32_t>& sizes)
      : each_(cluster.ranks_per_node), sizes_(sizes), free_(cluster.nodes, cluster.ranks_per_node),
        is_whole_(cluster.nodes, false), placed_(sizes.size()) {}

  void Keep(size_t job, const RankNodes& nodes) {
    placed_[job] = nodes;
    for (uint32_t node : nodes) --free_[node];
    if (IsWhole(job))
      for (uint32_t node : nodes) is_whole_[node] = true;
  }

  // Gives the job empty nodes, or those whose small jobs are the fewest, which have to move.
  void PlaceWhole(size_t job) {
    RankNodes nodes;
    for (size_t i = 0; i < sizes_[job] / each_; ++i) {
      const std::optional<size_t> node = EmptiestNode();
      if (!node.has_value()) return Withdraw(nodes);
      for (size_t other = 0; other < placed_.size(); ++other)
        if (!placed_[other].empty() && !IsWhole(other) && placed_[other].front() == *node)
          Evict(other);
      nodes.insert(nodes.end(), each_, static_cast<uint32_t>(*node));
      free_[*node] = 0;
      is_whole_[*node] = true;
    }
    std::sort(nodes.begin(), nodes.end());
    placed_[job] = nodes;
  }

  // Best fit; where capacity is split over nodes, smaller jobs of the freest node have to move.
  void PlacePart(size_t job) {
    std::optional<size_t> best;
    for (size_t node = 0; node < free_.size(); ++node)
      if (free_[node] >= sizes_[job] && (!best.has_value() || free_[node] < free_[*best]))
        best = node;
    if (!best.has_value()) best = MakeSpace(job);
    if (!best.has_value()) return;
    placed_[job].assign(sizes_[job], static_cast<uint32_t>(*best));
    free_[*best] -= sizes_[job];
  }

  std::vector<size_t> TakeEvicted() { return std::move(evicted_); }
  std::vector<RankNodes> Take() { return std::move(placed_); }
  bool IsWhole(size_t job) const { return sizes_[job] >= each_; }

 private:
  std::optional<size_t> EmptiestNode() const {
    std::optional<size_t> best;
    for (size_t node = 0; node < free_.size(); ++node)
      if (!is_whole_[node] && (!best.has_value() || free_[node] > free_[*best])) best = node;
    return best;
  }

  void Withdraw(const RankNodes& nodes) {
    for (uint32_t node : nodes) {
      free_[node] = each_;
      is_whole_[node] = false;
    }
  }

  void Evict(size_t job) {
    for (uint32_t node : placed_[job]) ++free_[node];
    placed_[job].clear();
    evicted_.push_back(job);
  }

  std::optional<size_t> MakeSpace(size_t job) {
    std::optional<size_t> best;
    for (size_t node = 0; node < free_.size(); ++node) {
      if (is_whole_[node] || HasOneAsLarge(node, sizes_[job])) continue;
      if (!best.has_value() || free_[node] > free_[*best]) best = node;
    }
    if (!best.has_value()) return best;
    std::vector<size_t> there;
    for (size_t other = 0; other < placed_.size(); ++other)
      if (!placed_[other].empty() && placed_[other].front() == *best) there.push_back(other);
    std::stable_sort(there.begin(), there.end(),
                     [&](size_t a, size_t b) { return sizes_[a] < sizes_[b]; });
    for (size_t other : there)
      if (free_[*best] < sizes_[job]) Evict(other);
    return free_[*best] >= sizes_[job] ? best : std::nullopt;
  }

  bool HasOneAsLarge(size_t node, size_t size) const {
    for (size_t other = 0; other < placed_.size(); ++other)
      if (!placed_[other].empty() && placed_[other].front() == node && sizes_[other] >= size)
        return true;
    return false;
  }

  const size_t each_;
  const std::vector<uint32_t>& sizes_;
  std::vector<size_t> free_;
  std::vector<bool> is_whole_;  // Given to a job of whole nodes.
  std::vector<RankNodes> placed_;
  std::vector<size_t> evicted_;
};

}  // namespace

std::vector<RankNodes> PlaceSubmeshes(const SubmeshCluster& cluster,
                                      const std::vector<RankNodes>& held,
                                      const std::vector<uint32_t>& sizes) {
  Board board(cluster, sizes);
  std::vector<size_t> waiting;
  for (size_t job = 0; job < sizes.size(); ++job) {
    if (sizes[job] == 0) continue;
    if (held[job].size() == sizes[job]) board.Keep(job, held[job]);
    else waiting.push_back(job);
  }
  const auto larger = [&](size_t a, size_t b) { return sizes[a] > sizes[b]; };
  std::stable_sort(waiting.begin(), waiting.end(), larger);
  for (size_t job : waiting)
    if (board.IsWhole(job)) board.PlaceWhole(job);
  std::erase_if(waiting, [&](size_t job) { return board.IsWhole(job); });
  while (true) {
    for (size_t job : board.TakeEvicted()) waiting.push_back(job);
    if (waiting.empty()) return board.Take();
    std::stable_sort(waiting.begin(), waiting.end(), larger);
    const size_t job = waiting.front();
    waiting.erase(waiting.begin());
    board.PlacePart(job);
  }
}

}  // namespace rt
