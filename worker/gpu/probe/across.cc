#include "worker/gpu/probe/across.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace rt::probe {
namespace {

// A link at this rate carries the largest size in a fifth of a second.
constexpr double kSlowGbps = 2;
constexpr uint64_t kBytesOfSlow = 16u << 20, kBytesOfOthers = 256u << 20;

// What a node brings before the links are measured.
struct Brought {
  NcclId id{};
  double bus_gbps = 0;
  int32_t gpus = 0;
  int32_t is_well = 0;  // It measured, and nothing was wrong.
};

template <typename T>
std::string BytesOf(const T& value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <typename T>
std::vector<T> AllOf(const std::string& bytes) {
  std::vector<T> all(bytes.size() / sizeof(T));
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), all.size() * sizeof(T));
  return all;
}

// The rate of the link that this node leads; 0: it leads none, or could not measure it.
double MeasureLinks(const NodeOfGang& gang, const std::vector<Brought>& all, uint64_t bytes_max,
                    const MeasurePair& measure) {
  double led = 0;
  for (int round = 0; round < RoundsOf(gang.nodes); ++round)
    for (const auto& [leader, other] : PairsOf(gang.nodes, round)) {
      if (leader != gang.node && other != gang.node) continue;
      const int of_leader = all[static_cast<size_t>(leader)].gpus;
      const double rate = measure({.id = all[static_cast<size_t>(leader)].id,
                                   .first = leader == gang.node ? 0 : of_leader,
                                   .ranks = of_leader + all[static_cast<size_t>(other)].gpus,
                                   .bytes_max = bytes_max});
      if (leader == gang.node) led = rate;
    }
  return led;
}

}  // namespace

void FindSlowPart(const NodeOfGang& gang, const NcclId& id, int gpus, double min_bus_gbps,
                  std::chrono::milliseconds most, const MeasurePair& measure,
                  AllReduceReport& across) {
  const bool is_well = across.fault.empty() && across.errors == 0;
  const std::vector<Brought> all = AllOf<Brought>(
      Gather(gang, 1, BytesOf(Brought{id, across.best_gbps(), gpus, is_well ? 1 : 0}), most));
  if (all.empty()) return;
  double slowest = across.best_gbps();
  for (const Brought& one : all) {
    if (one.is_well == 0) return;  // Something else is wrong, and its node says so.
    slowest = std::min(slowest, one.bus_gbps);
  }
  if (slowest >= min_bus_gbps) return;
  across.fault = TooSlow(slowest, min_bus_gbps);
  const uint64_t bytes_max = slowest < kSlowGbps ? kBytesOfSlow : kBytesOfOthers;
  const double led = MeasureLinks(gang, all, bytes_max, measure);
  const std::vector<double> rates = AllOf<double>(Gather(gang, 2, BytesOf(led), most));
  if (rates.empty()) return;
  for (int round = 0; round < RoundsOf(gang.nodes); ++round)
    for (const auto& [leader, other] : PairsOf(gang.nodes, round))
      across.links.push_back({leader, other, rates[static_cast<size_t>(leader)]});
  across.slow_links = FindSlowLinks(gang.nodes, across.links, min_bus_gbps);
  if (const std::string slow = Describe(across.slow_links); !slow.empty())
    across.fault += "; slow " + slow;
}

}  // namespace rt::probe
