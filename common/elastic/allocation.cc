#include "common/elastic/allocation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "common/elastic/costates.h"
#include "common/elastic/knapsack.h"

namespace rt {
namespace {

// A job of which nothing was measured.
constexpr double kUnknownWork_s = 600, kUnknownExponent = 0.7;
// A restart is paid back over the time until the job's size changes again, which is at most half of
// its remaining time, or this.
constexpr double kHorizonMax_s = 900, kHorizonMin_s = 60, kHorizonShare = 0.5;
// A job that grows within what was measured is likely to shrink again with the next arrivals.
constexpr double kArrivalsUntilShrink = 2;
constexpr double kFactorMin = 0.02;
// The knapsack's capacity; a larger one is solved in larger steps.
constexpr double kKnapsackMax = 4096;

// What a change to `ranks` leaves of the speed, after its restart.
double RestartFactor(const ElasticJob& job, uint32_t ranks, double speed_up, double work_s,
                     double arrival_s) {
  if (ranks == job.ranks) return 1;
  double horizon_s = kHorizonMax_s;
  const bool grows_as_measured = ranks > job.ranks && job.ranks > 0 && ranks <= job.ranks_measured;
  if (grows_as_measured && arrival_s > 0)
    horizon_s = std::min(horizon_s, std::max(kArrivalsUntilShrink * arrival_s, kHorizonMin_s));
  if (job.speed != nullptr) {
    const double half_s = kHorizonShare * work_s / speed_up + job.restart_s;
    horizon_s = std::min(horizon_s, std::max(half_s, kHorizonMin_s));
  }
  return std::max(kFactorMin, 1 - job.restart_s / horizon_s);
}

uint32_t LimitOf(const ElasticJob& job, const ElasticRound& round) {
  const uint32_t grown = std::max(round.growth * job.ranks_measured, round.first);
  return std::clamp(grown, job.ranks_min, job.ranks_max);
}

// The jobs that may change, by priority: the highest first, and the first arrived first in each.
using Tiers = std::map<int, std::vector<size_t>, std::greater<>>;
Tiers TiersOf(const ElasticRound& round) {
  Tiers tiers;
  for (size_t i = 0; i < round.jobs.size(); ++i)
    if (!round.jobs[i].is_fixed) tiers[round.jobs[i].priority].push_back(i);
  return tiers;
}

// The part of `left` that the minima of the jobs below the tier take, as far as they fit beside the
// minima of the tier itself.
double KeptBelow(const ElasticRound& round, const Tiers& tiers, Tiers::const_iterator tier,
                 double left) {
  double kept = 0;
  for (auto one = tier; one != tiers.end(); ++one)
    for (size_t i : one->second) {
      const double needs = round.jobs[i].ranks_min * round.jobs[i].units;
      if (!round.jobs[i].has_claim || needs > left) continue;
      left -= needs;
      if (one != tier) kept += needs;
    }
  return kept;
}

class Costated final : public ElasticPolicy {
 public:
  std::string_view name() const override { return "costate"; }

  std::vector<uint32_t> Allocate(const ElasticRound& round) const override {
    double left = round.capacity;
    std::vector<uint32_t> sizes;
    for (const ElasticJob& job : round.jobs) {
      sizes.push_back(job.is_fixed ? job.ranks : 0);
      left -= sizes.back() * job.units;
    }
    const Tiers tiers = TiersOf(round);
    for (auto tier = tiers.begin(); tier != tiers.end(); ++tier) {
      const double capacity = left - KeptBelow(round, tiers, tier, left);
      if (!(capacity > 0)) continue;
      std::vector<Row> rows;
      for (size_t i : tier->second) rows.push_back(RowOf(round, round.jobs[i], i));
      Weigh(round, rows, capacity);
      Choose(round, rows, capacity, sizes);
      for (size_t i : tier->second) left -= sizes[i] * round.jobs[i].units;
    }
    return sizes;
  }

 private:
  struct Row {
    size_t job = 0;
    double work_s = 0;
    std::vector<uint32_t> ranks;    // The sizes,
    std::vector<double> speed_ups;  // and what each is worth.
    double costate = 1;
  };

  static Row RowOf(const ElasticRound& round, const ElasticJob& job, size_t index) {
    const JobCurve curve(job, round.ranks_per_node);
    Row row{.job = index, .work_s = curve.RemainingSeconds()};
    const auto most = static_cast<uint32_t>(round.capacity / job.units);
    for (uint32_t ranks : SizesOf(job, round.ranks_per_node, most)) {
      const double speed_up = curve.SpeedUp(ranks);
      if (!(speed_up > 0)) continue;
      row.ranks.push_back(ranks);
      row.speed_ups.push_back(speed_up);
    }
    return row;
  }

  static void Weigh(const ElasticRound& round, std::vector<Row>& rows, double capacity) {
    std::vector<CostateJob> jobs;
    for (const Row& row : rows) {
      std::vector<std::pair<double, double>> points;
      for (size_t i = 0; i < row.ranks.size(); ++i)
        points.emplace_back(row.ranks[i] * round.jobs[row.job].units, row.speed_ups[i]);
      jobs.push_back({row.work_s, ConcaveHull(points)});
    }
    const std::vector<double> costates = Costates(jobs, capacity);
    const double least = *std::min_element(costates.begin(), costates.end());
    for (size_t i = 0; i < rows.size(); ++i) rows[i].costate = costates[i] / least;
  }

  static void Choose(const ElasticRound& round, const std::vector<Row>& rows, double capacity,
                     std::vector<uint32_t>& sizes) {
    const double step = std::max(1.0, capacity / kKnapsackMax);
    std::vector<std::vector<KnapsackItem>> items;
    std::vector<std::vector<uint32_t>> ranks;  // Of each item.
    double all = 0;
    for (const Row& row : rows) {
      const ElasticJob& job = round.jobs[row.job];
      items.emplace_back();
      ranks.emplace_back();
      for (size_t i = 0; i < row.ranks.size() && row.ranks[i] <= LimitOf(job, round); ++i) {
        const double factor =
            RestartFactor(job, row.ranks[i], row.speed_ups[i], row.work_s, round.arrival_s);
        const double value = row.costate * row.speed_ups[i] * factor;
        const auto weight = static_cast<uint32_t>(std::ceil(row.ranks[i] * job.units / step));
        if (!items.back().empty() && value <= items.back().back().value) continue;  // Never better.
        items.back().push_back({std::max(weight, 1u), value});
        ranks.back().push_back(row.ranks[i]);
      }
      if (!items.back().empty()) all += items.back().back().value;
    }
    // As many claims as possible are met, whatever else could be had instead.
    for (size_t i = 0; i < rows.size(); ++i)
      if (round.jobs[rows[i].job].has_claim)
        for (KnapsackItem& item : items[i]) item.value += all;
    const auto taken = SolveKnapsack(items, static_cast<uint32_t>(capacity / step));
    for (size_t i = 0; i < rows.size(); ++i)
      if (taken[i].has_value()) sizes[rows[i].job] = ranks[i][*taken[i]];
  }
};

class Equal final : public ElasticPolicy {
 public:
  std::string_view name() const override { return "equal"; }

  std::vector<uint32_t> Allocate(const ElasticRound& round) const override {
    double left = round.capacity;
    std::vector<uint32_t> sizes;
    for (const ElasticJob& job : round.jobs) {
      sizes.push_back(job.is_fixed ? job.ranks : 0);
      left -= sizes.back() * job.units;
    }
    const Tiers tiers = TiersOf(round);
    for (const auto& [priority, jobs] : tiers)  // The minima first.
      for (size_t i : jobs) Give(round.jobs[i], sizes[i], round.jobs[i].ranks_min, left);
    for (const auto& [priority, jobs] : tiers) Grow(round, jobs, sizes, left);
    return sizes;
  }

 private:
  // One rank more for whoever has the fewest, until nothing fits.
  static void Grow(const ElasticRound& round, const std::vector<size_t>& jobs,
                   std::vector<uint32_t>& sizes, double& left) {
    for (bool has_given = true; has_given;) {
      has_given = false;
      uint32_t least = UINT32_MAX;
      for (size_t i : jobs)
        if (MayGrow(round.jobs[i], sizes[i], left)) least = std::min(least, sizes[i]);
      for (size_t i : jobs)
        if (sizes[i] == least && MayGrow(round.jobs[i], sizes[i], left))
          has_given = Give(round.jobs[i], sizes[i], 1, left) || has_given;
    }
  }
  static bool MayGrow(const ElasticJob& job, uint32_t size, double left) {
    return size > 0 && size < job.ranks_max && job.units <= left;
  }
  static bool Give(const ElasticJob& job, uint32_t& size, uint32_t more, double& left) {
    if (more * job.units > left) return false;
    size += more;
    left -= more * job.units;
    return true;
  }
};

}  // namespace

std::vector<uint32_t> SizesOf(const ElasticJob& job, uint32_t ranks_per_node, uint32_t most) {
  std::vector<uint32_t> sizes{job.ranks_min, job.ranks_max};
  if (job.ranks > 0) sizes.push_back(job.ranks);
  for (uint32_t ranks = 1; ranks < ranks_per_node; ranks *= 2) sizes.push_back(ranks);
  for (uint32_t ranks = ranks_per_node; ranks <= most && ranks <= job.ranks_max;
       ranks += ranks_per_node)
    sizes.push_back(ranks);
  std::erase_if(sizes, [&](uint32_t ranks) {
    return ranks < job.ranks_min || ranks > job.ranks_max || ranks > most;
  });
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

JobCurve::JobCurve(const ElasticJob& job, uint32_t ranks_per_node)
    : job_(job), ranks_per_node_(ranks_per_node),
      alone_(job.speed == nullptr ? 0 : job.speed->Rate(job.noise, 1, 1)) {}

double JobCurve::SpeedUp(uint32_t ranks) const {
  if (job_.speed == nullptr) return std::pow(ranks, kUnknownExponent);
  const uint32_t nodes = (ranks + ranks_per_node_ - 1) / ranks_per_node_;
  return alone_ > 0 ? job_.speed->Rate(job_.noise, nodes, ranks) / alone_ : 0;
}

double JobCurve::RemainingSeconds() const {
  if (job_.total <= 0 || !(alone_ > 0)) return kUnknownWork_s;
  return std::max(job_.total - job_.progress, 1e-9) / alone_ * job_.slowness;
}

const ElasticPolicy& EqualSplit() {
  static const Equal policy;
  return policy;
}

const ElasticPolicy& CostatePolicy() {
  static const Costated policy;
  return policy;
}

}  // namespace rt
