// rt-probe: whether the gpus of this machine compute, remember and move bytes as they should.
// Prints one JSON object (docs/gpus.md); exits with 0 when all is well, 1 when something is not,
// and 2 when it was called wrongly.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "worker/gpu/probe/across.h"
#include "worker/gpu/probe/all_reduce.h"
#include "worker/gpu/probe/deadline.h"
#include "worker/gpu/probe/device_tests.h"
#include "worker/gpu/probe/meeting.h"
#include "worker/gpu/probe/nccl.h"
#include "worker/gpu/probe/pairs.h"
#include "worker/gpu/probe/report.h"

namespace rt::probe {
namespace {

constexpr char kUsage[] =
    "usage: rt-probe [flags] [-- PROGRAM ARGS...]\n"
    "  Tests the gpus that CUDA_VISIBLE_DEVICES names: memory, tensor cores, copies to and from "
    "the\n"
    "  host, and NCCL's all-reduce. With PROGRAM, it is executed when all is well.\n\n"
    "  --memory GIB        maximum memory of each gpu to test (default: what is free)\n"
    "  --gang              all-reduce over the processes of a gang (RANK, WORLD_SIZE, "
    "MASTER_ADDR,\n"
    "                      MASTER_PORT) instead of the gpus of this one\n"
    "  --across-nodes      also all-reduce over the gpus of all nodes of a gang, with one process "
    "on\n"
    "                      each (GROUP_RANK, GROUP_WORLD_SIZE, MASTER_ADDR, MASTER_PORT)\n"
    "  --meet-max S        seconds for which the nodes wait for each other (default: 30)\n"
    "  --links-max S       where that is below --min-bus-gbps, the links between the nodes are\n"
    "                      measured for S seconds (default: 6); also pairs of gpus, without "
    "--within\n"
    "  --min-bus-gbps N    the all-reduce of several ranks must reach this bus bandwidth\n"
    "  --no-all-reduce     leave the all-reduce out\n"
    "  --all-reduce-max S  seconds after which the all-reduce has failed (default: 180)\n"
    "  --within S          seconds after which the report is written at the latest; what has not\n"
    "                      ended then has failed\n"
    "  --report FILE       write the JSON there, and not to standard output\n";

constexpr double kTellMax = 2;           // Seconds: no process outlives its report by more.
constexpr double kAllReduceLeast = 0.1;  // Seconds, also when nothing is left of --within.

struct Options {
  uint64_t memory = 0;
  double min_bus_gbps = 0;
  double all_reduce_max = 180;  // Seconds. Ranks of a gang wait 60 s for each other.
  double within = 0;            // Seconds; 0: no limit.
  double meet_max = 30;         // Seconds.
  double links_max = 6;         // Seconds.
  bool gang = false, all_reduce = true, across = false;
  std::string report;
  char** program = nullptr;
};

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool has_value = i + 1 < argc;
    if (flag == "--") {
      options.program = argv + i + 1;
      return i + 1 < argc;
    }
    if (flag == "--gang") options.gang = true;
    else if (flag == "--no-all-reduce") options.all_reduce = false;
    else if (flag == "--across-nodes") options.across = true;
    else if (flag == "--meet-max" && has_value) options.meet_max = std::atof(argv[++i]);
    else if (flag == "--links-max" && has_value) options.links_max = std::atof(argv[++i]);
    else if (flag == "--memory" && has_value)
      options.memory = static_cast<uint64_t>(std::atof(argv[++i]) * 1073741824.0);
    else if (flag == "--min-bus-gbps" && has_value) options.min_bus_gbps = std::atof(argv[++i]);
    else if (flag == "--all-reduce-max" && has_value) options.all_reduce_max = std::atof(argv[++i]);
    else if (flag == "--within" && has_value) options.within = std::atof(argv[++i]);
    else if (flag == "--report" && has_value) options.report = argv[++i];
    else return false;
  }
  return true;
}

double Since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// How far the test of one gpu is, for whoever reports before it has ended.
struct Progress {
  DeviceReport described;  // Of is_described.
  std::atomic<bool> is_described = false, has_ended = false;
};

void TestDevice(int index, uint64_t memory, DeviceReport& report, Progress& progress) {
  const auto began = std::chrono::steady_clock::now();
  std::string fault = Describe(index, report);
  progress.described = report;
  progress.is_described = true;
  if (fault.empty()) fault = Use(index);
  if (fault.empty()) fault = TestMemory(memory, report);
  if (fault.empty()) fault = TestMatmul(report);
  if (fault.empty()) fault = TestHostCopies(report);
  report.fault = fault;
  report.seconds = Since(began);
  progress.has_ended = true;
}

bool Print(const std::string& text, const std::string& path) {
  if (path.empty()) return std::puts(text.c_str()) >= 0;
  FILE* file = std::fopen((path + ".part").c_str(), "w");
  if (file == nullptr) return false;
  const bool written = std::fputs(text.c_str(), file) >= 0;
  return std::fclose(file) == 0 && written &&
         std::rename((path + ".part").c_str(), path.c_str()) == 0;
}

std::string Late(double seconds) {
  char why[80];
  std::snprintf(why, sizeof why, "did not end within %g s", seconds);
  return why;
}

// The state of this node for the others of its gang.
NodeState StateOf(const Report& report) {
  if (!report.fault.empty()) return NodeState::kError;
  return report.is_ok() ? NodeState::kWell : NodeState::kFault;
}

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1'000 * seconds));
}

// `tells`: the other nodes are told that they need not wait for this one.
[[noreturn]] void ReportLate(Report& late, const Options& options, bool tells) {
  Judge(late, 0);
  Print(ToJson(late), options.report);
  std::fflush(stdout);
  NcclId none{};
  if (options.across && tells)
    Meet(NodeOfGang::FromEnvironment(), NodeState::kFault, 0, none.bytes, sizeof none.bytes,
         Milliseconds(std::min(options.meet_max, kTellMax)));
  ::_exit(1);
}

// A gpu that hangs is named: those whose tests have ended are reported with what they found.
void TestDevices(const Options& options, Report& report) {
  std::vector<Progress> progress(report.devices.size());
  std::optional<Deadline> deadline;
  if (options.within > 0) {
    deadline.emplace(Milliseconds(options.within), [&] {
      Report late;
      late.seconds = options.within;
      for (size_t i = 0; i < progress.size(); ++i) {
        DeviceReport& one = late.devices.emplace_back();
        if (progress[i].has_ended) {
          one = report.devices[i];
          continue;
        }
        if (progress[i].is_described) one = progress[i].described;
        one.index = static_cast<int>(i);
        one.fault = "its tests " + Late(options.within);
      }
      ReportLate(late, options, true);
    });
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < progress.size(); ++i)
    threads.emplace_back([&, i] {
      TestDevice(static_cast<int>(i), options.memory, report.devices[i], progress[i]);
    });
  for (std::thread& thread : threads) thread.join();
}

// NCCL waits without end for a rank that does not come, or for a link that is broken. Nothing ends
// such a call but the end of the process.
void Reduce(const Options& options, int devices, Report& report) {
  const GangRank gang = GangRank::FromEnvironment();
  Report late = report;
  double seconds = options.all_reduce_max;
  if (options.within > 0)
    seconds = std::clamp(options.within - report.seconds, kAllReduceLeast, seconds);
  late.all_reduce.fault = "the all-reduce " + Late(seconds);
  late.seconds += seconds;
  const Deadline deadline(Milliseconds(seconds), [&] { ReportLate(late, options, true); });
  if (options.gang && gang.ranks > 1) ReduceInGang(gang, report.all_reduce);
  else ReduceHere(devices, report.all_reduce);
}

// Which gpu is to blame, if the sums were wrong or the bandwidth below what was asked for. Without
// the time for it, all of them are reported as they are known.
void BlamePairs(const Options& options, double seconds, Report& report) {
  if (options.gang || !HasPairsToBlame(report, options.min_bus_gbps)) return;
  Report late = report;
  const Deadline deadline(Milliseconds(seconds), [&] { ReportLate(late, options, true); });
  const std::vector<LinkRate> rates =
      MeasurePairs(static_cast<int>(report.devices.size()), [](int gpu, int other) {
        AllReduceReport measured;
        ReducePair(gpu, other, measured);
        return measured.fault.empty() && measured.errors == 0 ? measured.best_gbps() : 0;
      });
  BlameGpus(rates, options.min_bus_gbps, report);
}

// The others wait for this node, also when its own tests have failed.
void ReduceAcrossNodes(const Options& options, int devices, Report& report) {
  const NodeOfGang gang = NodeOfGang::FromEnvironment();
  AllReduceReport& across = report.across;
  NodeState state = StateOf(report);
  NcclId id{};
  bool has_nccl = true;
  std::string why;
  if (state == NodeState::kWell) why = PrepareToReduce(gang.node == 0 ? &id : nullptr, has_nccl);
  if (!why.empty()) state = has_nccl ? NodeState::kError : NodeState::kWithoutNccl;
  const Meeting meeting = Meet(gang, state, state == NodeState::kWell ? devices : 0, id.bytes,
                               sizeof id.bytes, Milliseconds(options.meet_max));
  for (const NodeState one : meeting.states) across.node_states.push_back(static_cast<int>(one));
  across.note = meeting.note;
  across.fault = has_nccl && !why.empty() ? why : meeting.fault;
  if (!across.fault.empty() || !across.note.empty()) return;
  Report late = report;
  const double most = options.within > 0 ? options.within : options.all_reduce_max;
  late.across.fault = "the all-reduce across nodes " + Late(most);
  const Deadline deadline(Milliseconds(most), [&] { ReportLate(late, options, false); });
  ReduceWithOthers(id, devices, meeting.first, meeting.ranks, across);
}

// Which link between the nodes is slow, if the bandwidth is below what was asked for.
void NarrowDown(const Options& options, int devices, Report& report) {
  AllReduceReport& across = report.across;
  if (options.min_bus_gbps <= 0 || across.ranks == 0) return;
  Report late = report;
  Judge(late, options.min_bus_gbps);
  late.across.fault += late.across.fault.empty() ? "" : "; ";
  late.across.fault += "measuring the links between the nodes " + Late(options.links_max);
  const Deadline deadline(Milliseconds(options.links_max),
                          [&] { ReportLate(late, options, false); });
  NcclId id{};
  bool has_nccl = true;
  if (across.fault.empty()) across.fault = PrepareToReduce(&id, has_nccl);
  FindSlowPart(
      NodeOfGang::FromEnvironment(), id, devices, options.min_bus_gbps,
      Milliseconds(options.links_max),
      [&](const PairOfNodes& pair) {
        AllReduceReport measured;
        ReduceWithOthers(pair.id, devices, pair.first, pair.ranks, measured, pair.bytes_max);
        return measured.fault.empty() ? measured.best_gbps() : 0;
      },
      across);
}

Report Run(const Options& options) {
  const auto began = std::chrono::steady_clock::now();
  Report report;
  const int count = CountDevices(report.fault);
  if (report.fault.empty() && count == 0) report.fault = "no gpu is visible";
  report.devices.resize(static_cast<size_t>(count));
  TestDevices(options, report);
  Judge(report, 0);
  if (options.all_reduce && report.is_ok()) {
    report.seconds = Since(began);
    Reduce(options, count, report);
    Judge(report, options.min_bus_gbps);
    const double left = options.within > 0 ? options.within - Since(began) : options.links_max;
    BlamePairs(options, std::max(left, kAllReduceLeast), report);
  }
  if (options.across) {
    ReduceAcrossNodes(options, count, report);
    NarrowDown(options, count, report);
    Judge(report, options.min_bus_gbps);
  }
  report.seconds = Since(began);
  return report;
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) return std::fputs(kUsage, stdout), 0;
  Options options;
  if (!Parse(argc, argv, options)) return std::fputs(kUsage, stderr), 2;
  const Report report = Run(options);
  if (!Print(ToJson(report), options.report)) return std::perror("rt-probe: report"), 1;
  if (!report.is_ok() || options.program == nullptr) return report.is_ok() ? 0 : 1;
  ::execvp(options.program[0], options.program);
  std::perror(options.program[0]);
  return 127;
}

}  // namespace
}  // namespace rt::probe

int main(int argc, char** argv) { return rt::probe::Main(argc, argv); }
