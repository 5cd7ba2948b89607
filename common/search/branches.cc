#include "common/search/branches.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/search/elementary.h"

namespace rt {

std::vector<Branch> BranchesOf(const Encoding& encoding,
                               const std::vector<const FinishedTrial*>& finished,
                               const std::vector<FlyingTrial>& in_flight) {
  std::vector<double> values;
  for (const FinishedTrial* trial : finished)
    if (std::isfinite(trial->value)) values.push_back(trial->value);
  std::sort(values.begin(), values.end());
  const auto rank_of = [&](const FinishedTrial& trial) {
    if (!std::isfinite(trial.value)) return values.size() + 1;
    const auto at = std::lower_bound(values.begin(), values.end(), trial.value);
    return static_cast<size_t>(at - values.begin()) + 1;
  };
  std::map<std::vector<bool>, Branch> found;
  for (const FinishedTrial* trial : finished) {
    Branch& branch = found[encoding.Existing(trial->point)];
    const size_t rank = rank_of(*trial);
    if (branch.finished.empty() || rank < branch.best_rank) branch.best_rank = rank;
    branch.finished.push_back(trial);
  }
  for (const FlyingTrial& trial : in_flight) ++found[encoding.Existing(trial.point)].in_flight;
  std::vector<Branch> branches;
  for (auto& [axes, branch] : found) {
    branch.axes = axes;
    if (branch.finished.empty()) branch.best_rank = values.size() + 1;
    branches.push_back(std::move(branch));
  }
  return branches;
}

std::vector<const Branch*> InOrderOfChoice(const std::vector<Branch>& branches,
                                           double exploration) {
  std::vector<std::pair<double, const Branch*>> scored;
  for (const Branch& branch : branches)
    scored.emplace_back(Log(static_cast<double>(branch.best_rank)) +
                            exploration * Log(static_cast<double>(branch.trials())),
                        &branch);
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Branch*> order;
  for (const auto& each : scored) order.push_back(each.second);
  return order;
}

}  // namespace rt
