// Which gpu of a machine is to blame, from what pairs of them measured.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <set>

#include "worker/gpu/probe/pairs.h"

namespace rt::probe {
namespace {

// Of a machine with so many gpus, whose all-reduce was below 100 GB/s or had wrong sums.
Report ReportOf(size_t gpus, double all_gbps, uint64_t errors = 0) {
  Report report;
  report.devices.resize(gpus);
  report.all_reduce.ranks = static_cast<int>(gpus);
  report.all_reduce.library = "NCCL";
  report.all_reduce.sizes = {{1 << 20, 1, all_gbps}};
  report.all_reduce.errors = errors;
  return report;
}

using Rates = std::map<std::pair<int, int>, double>;

// The gpus that get a fault, where pairs have 200 GB/s but for these.
std::set<int> Blamed(Report report, const Rates& slow, double min_bus_gbps = 100) {
  const auto measure = [&](int gpu, int other) {
    const auto found = slow.find({gpu, other});
    return found == slow.end() ? 200.0 : found->second;
  };
  BlameGpus(MeasurePairs(static_cast<int>(report.devices.size()), measure), min_bus_gbps, report);
  std::set<int> blamed;
  for (size_t i = 0; i < report.devices.size(); ++i)
    if (!report.devices[i].fault.empty()) blamed.insert(static_cast<int>(i));
  return blamed;
}

}  // namespace

TEST_CASE("probe pairs: they tell more where three gpus or more were wrong or slow") {
  CHECK(HasPairsToBlame(ReportOf(3, 30), 100));
  CHECK(HasPairsToBlame(ReportOf(8, 300, 5), 0));
  CHECK(!HasPairsToBlame(ReportOf(8, 300), 100));
  CHECK(!HasPairsToBlame(ReportOf(8, 30), 0));  // Any bandwidth will do.
  CHECK(!HasPairsToBlame(ReportOf(2, 30, 5), 100));
  Report without = ReportOf(8, 30);
  without.all_reduce.library = "";
  CHECK(!HasPairsToBlame(without, 100));
}

TEST_CASE("probe pairs: each gpu measures once with both of its neighbours, and with one at once") {
  for (int gpus = 3; gpus <= 9; ++gpus) {
    INFO(gpus);
    std::mutex mutex;
    std::multiset<int> busy, all;
    std::set<std::pair<int, int>> pairs;
    bool is_apart = true;
    MeasurePairs(gpus, [&](int gpu, int other) {
      {
        const std::lock_guard lock(mutex);
        is_apart = is_apart && busy.count(gpu) == 0 && busy.count(other) == 0;
        busy.insert({gpu, other});
        all.insert({gpu, other});
        CHECK(other == (gpu + 1) % gpus);
        CHECK(pairs.insert({gpu, other}).second);
      }
      const std::lock_guard lock(mutex);
      busy.erase(busy.find(gpu));
      busy.erase(busy.find(other));
      return 1.0;
    });
    CHECK(is_apart);
    for (int gpu = 0; gpu < gpus; ++gpu) CHECK(all.count(gpu) == 2);
  }
}

TEST_CASE("probe pairs: the gpu with two slow pairs is named, or both of the one slow pair") {
  CHECK(Blamed(ReportOf(8, 30), {{{2, 3}, 30}, {{3, 4}, 25}}) == std::set<int>{3});
  CHECK(Blamed(ReportOf(8, 30), {{{7, 0}, 30}, {{0, 1}, 25}}) == std::set<int>{0});
  CHECK(Blamed(ReportOf(8, 30), {{{2, 3}, 30}}) == std::set<int>{2, 3});
  CHECK(Blamed(ReportOf(3, 30), {{{0, 1}, 30}, {{1, 2}, 25}}) == std::set<int>{1});
  Report report = ReportOf(4, 30);
  BlameGpus({{0, 1, 200}, {2, 3, 25}, {1, 2, 30.5}, {3, 0, 200}}, 100, report);
  CHECK(report.devices[2].fault ==
        "its all-reduce with gpu 3 is at 25 GB/s of bus bandwidth, 100 are asked for; its "
        "all-reduce with gpu 1 is at 30.5 GB/s of bus bandwidth, 100 are asked for");
}

TEST_CASE("probe pairs: no gpu is named where the machine as a whole is slow") {
  Rates all;
  for (int gpu = 0; gpu < 8; ++gpu) all[{gpu, (gpu + 1) % 8}] = 30;
  CHECK(Blamed(ReportOf(8, 30), all).empty());
  // Islands of two gpus: every second pair is slow.
  CHECK(Blamed(ReportOf(4, 30), {{{1, 2}, 30}, {{3, 0}, 30}}).empty());
  // Pairs do better than all together.
  CHECK(Blamed(ReportOf(8, 30), {}).empty());
}

TEST_CASE("probe pairs: where sums are wrong, a pair that is slow is not to blame") {
  CHECK(Blamed(ReportOf(8, 30, 7), {{{2, 3}, 0}, {{3, 4}, 0}, {{5, 6}, 20}}) == std::set<int>{3});
  CHECK(Blamed(ReportOf(8, 30, 7), {{{5, 6}, 20}}).empty());
  Report report = ReportOf(3, 300, 7);
  BlameGpus({{0, 1, 200}, {1, 2, 0}, {2, 0, 0}}, 0, report);
  CHECK(report.devices[2].fault ==
        "its all-reduce with gpu 1 is wrong; its all-reduce with gpu 0 is wrong");
  CHECK(report.devices[0].fault.empty());
}

}  // namespace rt::probe
