// What rt-probe makes of what it measured.
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "common/base/json.h"
#include "worker/gpu/probe/deadline.h"
#include "worker/gpu/probe/report.h"

namespace rt::probe {
namespace {

Report Healthy(int devices) {
  Report report;
  for (int i = 0; i < devices; ++i) {
    DeviceReport& one = report.devices.emplace_back();
    one.index = i;
    one.uuid = "GPU-" + std::to_string(i);
    one.copy_gbps = 3'000 + i;
    one.matmul_tflops = 600;
    one.to_device_gbps = one.to_host_gbps = 55;
  }
  return report;
}

}  // namespace

TEST_CASE("probe: a deadline expires once, on a thread of its own, and not when it was met") {
  std::promise<std::thread::id> expired;
  {
    const Deadline late(std::chrono::milliseconds(1),
                        [&] { expired.set_value(std::this_thread::get_id()); });
    CHECK(expired.get_future().get() != std::this_thread::get_id());
  }
  bool is_late = false;
  {
    const Deadline met(std::chrono::minutes(10), [&] { is_late = true; });
  }
  CHECK(!is_late);
}

TEST_CASE(
    "probe: the slow one of several is named, and one alone has nothing to be compared with") {
  Report report = Healthy(8);
  report.devices[3].matmul_tflops = 400;
  report.devices[5].to_host_gbps = 12;
  Judge(report, 0);
  CHECK(!report.is_ok());
  CHECK(report.devices[3].fault == "it multiplies at 400 TFLOP/s, where the median is 600");
  CHECK(report.devices[5].fault.find("sends to the host at 12") != std::string::npos);
  CHECK(report.devices[0].fault.empty());
  Report alone = Healthy(1);
  alone.devices[0].matmul_tflops = 1;
  Judge(alone, 100);
  CHECK(alone.is_ok());
}

TEST_CASE("probe: wrong memory, wrong products and wrong sums are faults") {
  Report report = Healthy(3);
  report.devices[0].memory_errors = 2;
  report.devices[1].matmul_errors = 1;
  report.all_reduce = {.ranks = 3,
                       .library = "NCCL",
                       .sizes = {{1'000, 1, 5}},
                       .errors = 4,
                       .note = "",
                       .fault = ""};
  Judge(report, 0);
  CHECK(report.devices[0].fault == "2 words of its memory read back wrong");
  CHECK(report.devices[1].fault == "1 products of its tensor cores are wrong");
  CHECK(report.all_reduce.fault == "4 sums of the all-reduce are wrong");
}

TEST_CASE("probe: a bus below what was asked for is a fault, with several ranks") {
  Report report = Healthy(2);
  report.all_reduce = {.ranks = 2,
                       .library = "NCCL",
                       .sizes = {{1, 1, 40}, {2, 1, 90}},
                       .errors = 0,
                       .note = "",
                       .fault = ""};
  Judge(report, 80);
  CHECK(report.is_ok());
  Judge(report, 100);
  CHECK(report.all_reduce.fault == "all-reduce at 90 GB/s of bus bandwidth, 100 are asked for");
}

TEST_CASE("probe: the report is JSON, and what was not measured is null") {
  Report report = Healthy(1);
  report.devices[0].name = "H\"100\\";
  report.devices[0].to_host_gbps = 0;
  report.all_reduce.ranks = 1;
  report.all_reduce.note = "one gpu";
  const auto json = Json::Parse(ToJson(report));
  REQUIRE(json.ok());
  const Json& device = json->Find("devices")->array()[0];
  CHECK(device.GetString("name") == "H\"100\\");
  CHECK(device.Find("to_host_gbps")->is_null());
  CHECK(json->Find("all_reduce")->Find("bus_gbps")->is_null());
  CHECK(json->Find("ok")->AsBool());
}

}  // namespace rt::probe
