#include "worker/gpu/probe/report.h"

#include <algorithm>
#include <cstdio>

#include "worker/gpu/json_text.h"

namespace rt::probe {
namespace {

constexpr double kSlow =
    0.8;  // Of the median; healthy devices of one kind differ by a few percent.

using worker::JsonText;
using worker::JsonTextOrNull;

std::string Number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}
std::string RateOrNull(double value) { return value > 0 ? Number(value) : "null"; }

double MedianOf(const std::vector<DeviceReport>& devices, double DeviceReport::*rate) {
  std::vector<double> rates;
  for (const DeviceReport& one : devices)
    if (one.*rate > 0) rates.push_back(one.*rate);
  if (rates.size() < 2) return 0;  // Nothing to compare with.
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

void FindSlow(std::vector<DeviceReport>& devices, double DeviceReport::*rate, const char* what,
              const char* unit) {
  const double median = MedianOf(devices, rate);
  for (DeviceReport& one : devices) {
    if (!one.fault.empty() || one.*rate <= 0 || one.*rate >= kSlow * median) continue;
    one.fault = std::string(what) + " at " + Number(one.*rate) + " " + unit +
                ", where the median is " + Number(median);
  }
}

void JudgeAllReduce(AllReduceReport& all, double min_bus_gbps) {
  if (!all.fault.empty()) return;
  if (all.errors > 0) all.fault = std::to_string(all.errors) + " sums of the all-reduce are wrong";
  const bool is_slow = all.ranks > 1 && min_bus_gbps > 0 && all.best_gbps() < min_bus_gbps;
  if (all.fault.empty() && is_slow) all.fault = TooSlow(all.best_gbps(), min_bus_gbps);
}

std::string ToJson(const DeviceReport& one) {
  return "{\"uuid\":" + JsonText(one.uuid) + ",\"index\":" + std::to_string(one.index) +
         ",\"name\":" + JsonText(one.name) +
         ",\"memory_bytes\":" + std::to_string(one.memory_bytes) +
         ",\"tested_bytes\":" + std::to_string(one.tested_bytes) +
         ",\"memory_errors\":" + std::to_string(one.memory_errors) +
         ",\"copy_gbps\":" + RateOrNull(one.copy_gbps) +
         ",\"matmul_tflops\":" + RateOrNull(one.matmul_tflops) +
         ",\"matmul_errors\":" + std::to_string(one.matmul_errors) +
         ",\"to_device_gbps\":" + RateOrNull(one.to_device_gbps) +
         ",\"to_host_gbps\":" + RateOrNull(one.to_host_gbps) +
         ",\"seconds\":" + Number(one.seconds) + ",\"fault\":" + JsonTextOrNull(one.fault) + "}";
}

std::string ToJson(const std::vector<LinkRate>& links) {
  std::string text = "[";
  for (const LinkRate& link : links)
    text += std::string(&link == links.data() ? "" : ",") +
            "{\"node\":" + std::to_string(link.node) + ",\"other\":" + std::to_string(link.other) +
            ",\"bus_gbps\":" + Number(link.bus_gbps) + "}";
  return text + "]";
}

std::string ToJson(const AllReduceReport& all) {
  if (all.library.empty() && all.fault.empty() && all.note.empty()) return "null";
  std::string text = "{\"ranks\":" + std::to_string(all.ranks) +
                     ",\"library\":" + JsonTextOrNull(all.library) +
                     ",\"bus_gbps\":" + RateOrNull(all.best_gbps()) +
                     ",\"errors\":" + std::to_string(all.errors) + ",\"sizes\":[";
  for (const AllReduceSize& size : all.sizes)
    text += std::string(&size == all.sizes.data() ? "" : ",") +
            "{\"bytes\":" + std::to_string(size.bytes) + ",\"seconds\":" + Number(size.seconds) +
            ",\"bus_gbps\":" + RateOrNull(size.bus_gbps) + "}";
  text += "],\"nodes\":[";
  for (const int state : all.node_states)
    text += (&state == all.node_states.data() ? "" : ",") + std::to_string(state);
  return text + "],\"links\":" + ToJson(all.links) + ",\"slow_links\":" + ToJson(all.slow_links) +
         ",\"note\":" + JsonTextOrNull(all.note) + ",\"fault\":" + JsonTextOrNull(all.fault) + "}";
}

}  // namespace

std::string TooSlow(double bus_gbps, double min_bus_gbps) {
  return "all-reduce at " + Number(bus_gbps) + " GB/s of bus bandwidth, " + Number(min_bus_gbps) +
         " are asked for";
}

double AllReduceReport::best_gbps() const {
  double best = 0;
  for (const AllReduceSize& size : sizes) best = std::max(best, size.bus_gbps);
  return best;
}

bool Report::is_ok() const {
  return fault.empty() && all_reduce.fault.empty() && across.fault.empty() &&
         std::all_of(devices.begin(), devices.end(),
                     [](const DeviceReport& one) { return one.fault.empty(); });
}

void Judge(Report& report, double min_bus_gbps) {
  for (DeviceReport& one : report.devices) {
    if (!one.fault.empty()) continue;
    if (one.memory_errors > 0)
      one.fault = std::to_string(one.memory_errors) + " words of its memory read back wrong";
    else if (one.matmul_errors > 0)
      one.fault = std::to_string(one.matmul_errors) + " products of its tensor cores are wrong";
  }
  FindSlow(report.devices, &DeviceReport::matmul_tflops, "it multiplies", "TFLOP/s");
  FindSlow(report.devices, &DeviceReport::copy_gbps, "its memory copies", "GB/s");
  FindSlow(report.devices, &DeviceReport::to_device_gbps, "it receives from the host", "GB/s");
  FindSlow(report.devices, &DeviceReport::to_host_gbps, "it sends to the host", "GB/s");
  JudgeAllReduce(report.all_reduce, min_bus_gbps);
  JudgeAllReduce(report.across, min_bus_gbps);
}

std::string ToJson(const Report& report) {
  std::string text = "{\"schema\":1,\"ok\":" + std::string(report.is_ok() ? "true" : "false") +
                     ",\"seconds\":" + Number(report.seconds) +
                     ",\"fault\":" + JsonTextOrNull(report.fault) + ",\"devices\":[";
  for (const DeviceReport& one : report.devices)
    text += std::string(&one == report.devices.data() ? "" : ",") + ToJson(one);
  return text + "],\"all_reduce\":" + ToJson(report.all_reduce) +
         ",\"across_nodes\":" + ToJson(report.across) + "}";
}

}  // namespace rt::probe
