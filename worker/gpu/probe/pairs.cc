#include "worker/gpu/probe/pairs.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <thread>

namespace rt::probe {
namespace {

// A pair says nothing that the all-reduce over two gpus has not said.
constexpr size_t kGpusMin = 3;
// What a pair with wrong sums has is below it.
constexpr double kLeastRate = 1e-9;

std::string PairText(const LinkRate& pair, int gpu, double min_bus_gbps) {
  const std::string with =
      "its all-reduce with gpu " + std::to_string(pair.node == gpu ? pair.other : pair.node);
  if (pair.bus_gbps < kLeastRate) return with + " is wrong";
  char text[80];
  std::snprintf(text, sizeof text, " is at %.3g GB/s of bus bandwidth, %.6g are asked for",
                pair.bus_gbps, min_bus_gbps);
  return with + text;
}

void Blame(int gpu, const std::vector<LinkRate>& slow, double min_bus_gbps, Report& report) {
  std::string fault;
  for (const LinkRate& pair : slow)
    if (pair.node == gpu || pair.other == gpu)
      fault += (fault.empty() ? "" : "; ") + PairText(pair, gpu, min_bus_gbps);
  report.devices[static_cast<size_t>(gpu)].fault = fault;
}

}  // namespace

bool HasPairsToBlame(const Report& report, double min_bus_gbps) {
  const AllReduceReport& all = report.all_reduce;
  const bool is_slow = min_bus_gbps > 0 && all.best_gbps() > 0 && all.best_gbps() < min_bus_gbps;
  return report.devices.size() >= kGpusMin && !all.library.empty() && (all.errors > 0 || is_slow);
}

std::vector<LinkRate> MeasurePairs(int gpus, const MeasureGpus& measure) {
  std::vector<LinkRate> rates;
  for (int round = 0; round < RoundsOf(gpus); ++round) {
    const size_t first = rates.size();
    for (const std::pair<int, int>& pair : PairsOf(gpus, round))
      rates.push_back({pair.first, pair.second, 0});
    std::vector<std::thread> threads;
    for (size_t i = first; i < rates.size(); ++i)
      threads.emplace_back([&, i] { rates[i].bus_gbps = measure(rates[i].node, rates[i].other); });
    for (std::thread& thread : threads) thread.join();
  }
  return rates;
}

void BlameGpus(const std::vector<LinkRate>& rates, double min_bus_gbps, Report& report) {
  // Where sums are wrong, a pair that is only slow is not to blame.
  const double least = report.all_reduce.errors > 0 ? kLeastRate : min_bus_gbps;
  std::vector<LinkRate> slow;
  std::copy_if(rates.begin(), rates.end(), std::back_inserter(slow),
               [&](const LinkRate& pair) { return pair.bus_gbps < least; });
  std::vector<int> blamed;
  for (const LinkRate& named : FindSlowLinks(static_cast<int>(report.devices.size()), rates, least))
    if (named.node == named.other) blamed.push_back(named.node);
  if (blamed.empty() && slow.size() == 1) blamed = {slow[0].node, slow[0].other};
  for (const int gpu : blamed) Blame(gpu, slow, min_bus_gbps, report);
}

}  // namespace rt::probe
