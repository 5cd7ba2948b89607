// sim SEED COUNT [THREADS]: runs COUNT seeds from SEED on and prints which faults took effect.
// Ends with status 1 and the seed at the first thing that is not legal.
// sim --cloud SEED COUNT [THREADS]: the same in the mode of the cloud, whose seeds are others.
// sim --record SEED DIR: keeps the journal of one seed in DIR, for tests of later releases.
// sim --story SEED, sim --cloud --story SEED: one seed, and each record as the disk gets it, as in
// tests/scenario.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/log.h"
#include "tests/scenario/print.h"
#include "tests/sim/record.h"
#include "tests/sim/simulation.h"

namespace rt::sim {
namespace {

thread_local uint64_t current_seed = 0;
bool is_cloud = false;  // Set before any seed runs.
const char* Kind() { return is_cloud ? "cloud seed" : "seed"; }

// RT_CHECK aborts: say which seed it was.
void OnAbort(int) {
  char text[64];
  int size = std::snprintf(text, sizeof text, "sim: %s %llu aborted\n", Kind(),
                           static_cast<unsigned long long>(current_seed));
  if (size > 0) (void)!write(2, text, static_cast<size_t>(size));
  _exit(1);
}

}  // namespace

void Fail(const std::string& what) {
  std::fprintf(stderr, "sim: %s %llu: %s\n", Kind(), static_cast<unsigned long long>(current_seed),
               what.c_str());
  std::fflush(stderr);
  _exit(1);
}

struct Totals {
  std::mutex mutex;
  Histogram faults;
  uint64_t inputs = 0, seeds = 0, rungs = 0;
  uint64_t inputs_least = UINT64_MAX, faults_least = UINT64_MAX;  // Of any seed.
};

// One seed; every 50th twice, which must come out the same.
void RunSeed(uint64_t seed, Totals& totals) {
  current_seed = seed;
  Simulation simulation(seed, is_cloud);
  const std::string state = simulation.Run();
  if (seed % 50 == 0) {
    Simulation again(seed, is_cloud);
    if (again.Run() != state) Fail("not deterministic");
  }
  const uint64_t inputs = simulation.sim().inputs;
  const uint64_t faults = simulation.sim().faults.Total();
  if (inputs < (is_cloud ? kCloudInputsLeast : kInputsLeast) || faults == 0)
    Fail("too little happened for a test");
  std::lock_guard lock(totals.mutex);
  totals.inputs_least = std::min(totals.inputs_least, inputs);
  totals.faults_least = std::min(totals.faults_least, faults);
  totals.faults.Merge(simulation.sim().faults);
  totals.inputs += inputs;
  totals.rungs += simulation.auditor().rungs_checked();
  ++totals.seeds;
}

void TellStory(uint64_t seed) {
  current_seed = seed;
  Simulation simulation(seed, is_cloud);
  Millis from = 0;
  simulation.OnKept([&](const std::vector<Record>& records, const std::vector<RowBatch>&) {
    for (const Record& record : records) {
      if (from == 0) from = record.at;
      std::printf("%5llu %7.3f s  %s\n", static_cast<unsigned long long>(record.seq),
                  static_cast<double>(record.at - from) / 1e3, scenario::Print(record).c_str());
    }
    std::fflush(stdout);
  });
  simulation.Run();
}

}  // namespace rt::sim

int main(int argc, char** argv) {
  using namespace rt::sim;
  if (argc == 4 && std::string_view(argv[1]) == "--record") {
    rt::SetLogLevel(rt::LogLevel::kError);
    RecordJournal(std::strtoull(argv[2], nullptr, 10), argv[3]);
    return 0;
  }
  std::signal(SIGABRT, OnAbort);
  if (argc > 1 && std::string_view(argv[1]) == "--cloud") {
    is_cloud = true;
    --argc;
    ++argv;
  }
  if (argc == 3 && std::string_view(argv[1]) == "--story") {
    rt::SetLogLevel(rt::LogLevel::kError);
    TellStory(std::strtoull(argv[2], nullptr, 10));
    return 0;
  }
  const uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const size_t threads =
      argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::thread::hardware_concurrency();
  rt::SetLogLevel(rt::LogLevel::kError);
  Totals totals;
  std::atomic<uint64_t> next = 0;
  std::vector<std::thread> pool;
  for (size_t i = 0; i < std::max<size_t>(1, threads); ++i) {
    pool.emplace_back([&] {
      for (uint64_t done = next++; done < count; done = next++) RunSeed(first + done, totals);
    });
  }
  for (std::thread& thread : pool) thread.join();
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf("%llu seeds, %llu inputs (each seed at least %llu, and %llu faults), "
              "%llu rungs recomputed; faults that took effect:\n",
              number(totals.seeds), number(totals.inputs), number(totals.inputs_least),
              number(totals.faults_least), number(totals.rungs));
  for (size_t i = 0; i < kFaultCount; ++i) {
    std::printf("  %-36s %llu\n", FaultName(static_cast<Fault>(i)),
                number(totals.faults.counts[i]));
  }
  return 0;
}
