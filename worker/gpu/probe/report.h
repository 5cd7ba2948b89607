// What rt-probe found, and how it prints it: one JSON object (docs/gpus.md). No CUDA here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/gpu/probe/links.h"

namespace rt::probe {

// One gpu. Rates that were not measured are 0.
struct DeviceReport {
  std::string uuid, name;
  int index = 0;  // Among those that the probe sees.
  uint64_t memory_bytes = 0;
  uint64_t tested_bytes = 0;
  uint64_t memory_errors = 0;  // Words that did not read back as they were written.
  double copy_gbps = 0;        // Within its memory: bytes read and written.
  double matmul_tflops = 0;    // fp16 with fp32 sums, on the tensor cores, from registers.
  uint64_t matmul_errors = 0;  // Results that were not exactly what they must be.
  double to_device_gbps = 0, to_host_gbps = 0;  // Pinned memory of the host.
  double seconds = 0;
  std::string fault;  // Why it should take no work; empty: it is well.
};

struct AllReduceSize {
  uint64_t bytes = 0;
  double seconds = 0;
  double bus_gbps = 0;  // 2 * (ranks - 1) / ranks of the bytes, per second.
};
struct AllReduceReport {
  int ranks = 0;
  std::string library;  // "NCCL 2.28.3"; empty: it was not run.
  std::vector<AllReduceSize> sizes;
  uint64_t errors = 0;  // Sums that were wrong.
  std::string note;     // Why bandwidth was not measured.
  std::string fault;
  // Of a gang over nodes: NodeState of each, as far as it is known.
  std::vector<int> node_states;
  std::vector<LinkRate> links;       // Where it was too slow: measured between neighbours,
  std::vector<LinkRate> slow_links;  // and those that are to blame.
  double best_gbps() const;
};

struct Report {
  std::vector<DeviceReport> devices;
  AllReduceReport all_reduce;  // Over the gpus of this process.
  AllReduceReport across;      // Over those of all nodes of a gang.
  std::string fault;  // Of the probe as a whole: no gpu, no driver.
  double seconds = 0;
  bool is_ok() const;
};

// "all-reduce at 3 GB/s of bus bandwidth, 200 are asked for"
std::string TooSlow(double bus_gbps, double min_bus_gbps);
// Names devices whose rates are far below the median of the others, and a bus below `min_bus_gbps`
// (0: any will do), both of this machine's gpus and across nodes.
void Judge(Report& report, double min_bus_gbps);
std::string ToJson(const Report& report);

}  // namespace rt::probe
