// The pure parts of what a worker does with gpus: Xids, quarantines, use, what is left behind.
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "common/base/strings.h"
#include "common/spec/resources.h"
#include "tests/temp_dir.h"
#include "worker/core/memory_error.h"
#include "worker/gpu/gpu_attempts.h"
#include "worker/gpu/gpu_processes.h"
#include "worker/gpu/kernel_log.h"
#include "worker/gpu/quarantine.h"
#include "worker/gpu/xid.h"

namespace rt::worker {
namespace {

Fence FenceOf(uint32_t trial) { return {{Owner::Of(TrialId{ExperimentId{1}, trial}), 1, 1}, 0}; }

GpuSample SampleAt(const std::string& uuid, int64_t busy, Bytes used) {
  GpuSample sample;
  sample.uuid = uuid;
  sample.utilisation = busy;
  sample.memory_used = used;
  sample.memory_total = 100;
  sample.power_milliwatts = busy * 1'000;
  sample.temperature = 40;
  return sample;
}

GpuHolder Holder(uint32_t trial, const std::vector<std::string>& uuids, int64_t units) {
  return {.fence = FenceOf(trial), .uuids = uuids, .units = units, .token = "secret"};
}

GpuProcess Process(uint64_t pid) {
  return {.pid = pid, .memory = 1 << 20, .name = "python", .attempt = ""};
}

}  // namespace

TEST_CASE("xid: the kernel's lines are read, with and without a function of the bus") {
  const auto told = ParseKernelLine(
      "3,1234,5678,-;NVRM: Xid (PCI:0000:3B:00): 79, pid=12, GPU has fallen off the bus.");
  REQUIRE(told.has_value());
  CHECK(told->bus == "0000:3b:00");
  CHECK(told->xid == 79);
  CHECK(ParseKernelLine("NVRM: Xid (PCI:0000:00:04.0): 31, Ch 00")->xid == 31);
  CHECK(!ParseKernelLine("NVRM: Xid (PCI:0000:00:04): oops").has_value());
  CHECK(!ParseKernelLine("NVRM: Xid (PCI:00): 79").has_value());
  CHECK(!ParseKernelLine("usb 1-1: new device").has_value());
}

TEST_CASE("xid: the page about gpus has the table, each number with its class") {
  std::ifstream file(RT_DOCS "/gpus.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  for (const XidMeaning& one : XidTable()) {
    const std::string row =
        "| " + std::to_string(one.number) + " | " + XidClassName(one.kind) + " | ";
    INFO(row);
    CHECK(page.find(row) != std::string::npos);
  }
}

TEST_CASE("xid: a number that nobody knows is logged, and nothing follows") {
  CHECK(ClassOfXid(99'999) == XidClass::kNotice);
  CHECK(ClassOfXid(0) == XidClass::kQuarantine);
  CHECK(DescribeXid(79) == "Xid 79: the gpu has fallen off the bus");
}

TEST_CASE("xid: a probe ends the quarantine only of what it tests") {
  for (uint64_t tested : {0, 46, 48, 61, 62, 79, 95, 109, 123, 140, 171, 172})
    CHECK(!NeedsPerson(tested));
  for (uint64_t untested : {38, 64, 74, 110, 119, 120, 136, 143, 149}) CHECK(NeedsPerson(untested));
}

TEST_CASE("xid: one that comes again and again is news each time, but not twice at once") {
  XidFilter filter;
  CHECK(filter.IsNews("GPU-a", 31, 1'000));
  CHECK(!filter.IsNews("GPU-a", 31, 1'500));  // From the kernel's log.
  CHECK(filter.IsNews("GPU-b", 31, 1'500));
  CHECK(filter.IsNews("GPU-a", 32, 1'500));
  CHECK(!filter.IsNews("GPU-a", 31, 2'900));
  CHECK(filter.IsNews("GPU-a", 31, 3'100));  // A repetition did not make it last longer.
  CHECK(!filter.IsNews("GPU-a", 31, 3'200));
  filter.Forget("GPU-a");
  CHECK(filter.IsNews("GPU-a", 31, 3'300));
  CHECK(!filter.IsNews("GPU-b", 31, 3'300));
}

TEST_CASE("kernel log: only what is added later counts, and a line may come in pieces") {
  TempDir dir{"kmsg"};
  const std::string path = dir.File("kmsg");
  std::ofstream(path) << "NVRM: Xid (PCI:0000:10:00): 48, before\n";
  KernelLog log(path);
  REQUIRE(log.is_open());
  CHECK(log.Read().empty());
  std::ofstream(path, std::ios::app) << "NVRM: Xid (PCI:0000:1";
  CHECK(log.Read().empty());
  std::ofstream(path, std::ios::app) << "0:00): 79, after\nother\n";
  const auto found = log.Read();
  REQUIRE(found.size() == 1);
  CHECK(found[0].xid == 79);
  CHECK(!KernelLog(dir.File("none")).is_open());
}

TEST_CASE(
    "quarantine: it is kept as text, a later one has a greater number, and only it is cleared") {
  Quarantine quarantine;
  CHECK(quarantine.Add("GPU-a", {.why = "Xid 79"}, 1'000));
  CHECK(!quarantine.Add("GPU-a", {.why = "Xid 48"}, 2'000));
  CHECK(!quarantine.Find("GPU-a")->by_hand);
  // A graver one replaces it. The clock went back.
  CHECK(quarantine.Add("GPU-a", {.why = "Xid 119", .drains = true, .by_hand = true}, 900));
  const uint64_t number = quarantine.Find("GPU-a")->number;
  CHECK(number == 1'001);
  CHECK(quarantine.WhyDrain({"GPU-b", "GPU-a"}) == "gpu GPU-a: Xid 119");
  CHECK(quarantine.WhyDrain({"GPU-b"}).empty());  // Of a gpu that was taken out.
  Quarantine next = Quarantine::Parse(quarantine.Text());
  CHECK(next.all() == quarantine.all());
  CHECK(!next.Clear("GPU-a", number - 1));
  CHECK(next.Clear("GPU-a", number));
  CHECK(next.all().empty());
  CHECK(Quarantine::Parse("[{\"uuid\":\"GPU-a\"}]").Find("GPU-a")->by_hand);  // An old file.
  CHECK(Quarantine::Parse("[{\"uuid\":1}, 3]").all().empty());
  CHECK(Quarantine::Parse("{").all().empty());
}

TEST_CASE(
    "gpu use: means and peaks over the samples of its own devices, idle samples, gpu-seconds") {
  GpuAttempts attempts;
  attempts.Begin(Holder(1, {"GPU-a", "GPU-b"}, 2 * kUnit), 1'000);
  attempts.Begin(Holder(2, {"GPU-c"}, kUnit / 2), 1'000);
  attempts.Add({SampleAt("GPU-a", 100, 10), SampleAt("GPU-b", 0, 30), SampleAt("GPU-c", 7, 99)});
  attempts.Add({SampleAt("GPU-a", 50, 20), SampleAt("GPU-b", 50, 0)});
  attempts.End(FenceOf(1), 3'000);
  attempts.Add({SampleAt("GPU-a", 100, 90)});  // No longer its own.
  const GpuUse use = attempts.UseOf(FenceOf(1), 9'000);
  CHECK(use.devices == 2);
  CHECK(use.samples == 4);
  CHECK(use.idle_samples == 1);
  CHECK(use.device_ms == 4'000);
  CHECK(use.utilisation_mean == Approx(50));
  CHECK(use.utilisation_peak == 100);
  CHECK(use.memory_mean == Approx(15));
  CHECK(use.memory_peak == 30);
  CHECK(use.memory_size == 100);
  CHECK(use.power_mean == Approx(50));
  CHECK(attempts.UseOf(FenceOf(2), 3'000).device_ms == 1'000);  // Half of one.
  const GpuUse both = Together(use, attempts.UseOf(FenceOf(2), 3'000));
  CHECK(both.devices == 3);
  CHECK(both.utilisation_mean == Approx((4 * 50 + 7) / 5.0));
  CHECK(both.memory_peak == 99);
}

TEST_CASE("gpu use: a fault is that of the attempts that hold the gpu then, and of no later one") {
  GpuAttempts attempts;
  attempts.Begin(Holder(1, {"GPU-a"}, kUnit), 0);
  attempts.Begin(Holder(2, {"GPU-b"}, kUnit), 0);
  CHECK(attempts.NoteFault({"GPU-a"}, "Xid 79") == std::vector<Fence>{FenceOf(1)});
  CHECK(attempts.FaultOf(FenceOf(1)) == "Xid 79");
  CHECK(attempts.FaultOf(FenceOf(2)).empty());
  attempts.End(FenceOf(1), 1);
  attempts.NoteGivenBack(FenceOf(1));
  attempts.Begin(Holder(3, {"GPU-a"}, kUnit), 2);
  CHECK(attempts.NoteFault({"GPU-a"}, "Xid 48") == std::vector<Fence>{FenceOf(3)});
  CHECK(attempts.FaultOf(FenceOf(1)) == "Xid 79");
}

TEST_CASE("gpu use: a frozen attempt has its gpus neither in use nor to give back") {
  GpuAttempts attempts;
  attempts.Begin(Holder(1, {"GPU-a"}, kUnit), 1'000);
  attempts.SetFrozen(FenceOf(1), true, 2'000);
  CHECK_FALSE(attempts.IsHeld("GPU-a"));
  attempts.Add({SampleAt("GPU-a", 100, 10)});
  CHECK(attempts.NoteFault({"GPU-a"}, "Xid 79").empty());
  CHECK(attempts.UseOf(FenceOf(1), 5'000).samples == 0);
  CHECK(attempts.UseOf(FenceOf(1), 5'000).device_ms == 1'000);
  attempts.SetFrozen(FenceOf(1), false, 6'000);
  CHECK(attempts.IsHeld("GPU-a"));
  CHECK(attempts.UseOf(FenceOf(1), 7'000).device_ms == 2'000);
  attempts.SetFrozen(FenceOf(1), true, 7'000);
  attempts.End(FenceOf(1), 8'000);
  CHECK(attempts.IsGivenBack(FenceOf(1)));
  CHECK(attempts.Endings().empty());
}

TEST_CASE("give back: what was there before does not count, memory beyond the idle gpu does") {
  const GpuHolders idle{.used = 500 << 20, .processes = {Process(1)}};
  const auto is_free = [&](const GpuHolders& now, const std::set<uint64_t>& own, bool shared) {
    return FindLeftover(now, idle, own, shared).is_free();
  };
  CHECK(is_free({.used = 510 << 20, .processes = {Process(1)}}, {}, false));
  CHECK(!is_free({.used = 900 << 20, .processes = {Process(1)}}, {}, false));
  CHECK(!is_free({.used = 500 << 20, .processes = {Process(1), Process(7)}}, {}, false));
  CHECK(!is_free({.used = 500 << 20, .processes = {Process(7)}}, {7}, true));
  CHECK(is_free({.used = 900 << 20, .processes = {Process(8)}}, {7}, true));  // Another's share.
  // A gpu that was never seen idle is judged by the attempt's processes alone.
  const GpuHolders never{.used = 900 << 20, .processes = {Process(7), Process(8)}};
  CHECK(FindLeftover(never, std::nullopt, {}, false).is_free());
  CHECK(FindLeftover(never, std::nullopt, {7}, false).own.size() == 1);
  const Leftover left =
      FindLeftover({.used = 900 << 20, .processes = {Process(7)}}, idle, {7}, false);
  CHECK(DescribeLeftover(FenceOf(1), left).find("by pid 7 (python)") != std::string::npos);
}

TEST_CASE("gpu processes: a token is a whole variable of the environment, and may be missing") {
  using namespace std::string_literals;
  CHECK(TokenIn("A=1\0RT_TOKEN=abc\0SECRET=s\0"s) == "abc");
  CHECK(TokenIn("RT_TOKEN=abc"s) == "abc");
  CHECK(TokenIn("OLD_RT_TOKEN=abc\0A=RT_TOKEN=abc\0"s).empty());
  CHECK(TokenIn("").empty());
  GpuAttempts attempts;
  attempts.Begin(Holder(1, {"GPU-a"}, kUnit), 0);
  CHECK(attempts.AttemptOf("secret") == "t1-1.a1.r0");
  CHECK(attempts.AttemptOf("secret2").empty());
  CHECK(attempts.AttemptOf("").empty());
}

TEST_CASE("out of gpu memory is told from other errors, and only with a gpu") {
  GpuUse use;
  use.devices = 1;
  auto kind = [&](const std::string& name, const std::string& message) {
    return WithOutOfMemory({name, message, ""}, use).kind;
  };
  CHECK(kind("OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 GiB.") ==
        kGpuOutOfMemory);
  CHECK(kind("RuntimeError", "CUDA error: out of memory") == kGpuOutOfMemory);
  CHECK(kind("XlaRuntimeError", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate") ==
        kGpuOutOfMemory);
  CHECK(kind("", "terminate: cudaErrorMemoryAllocation") == kGpuOutOfMemory);
  CHECK(kind("MemoryError", "") == "MemoryError");
  CHECK(kind("RuntimeError", "CUDA error: an illegal memory access") == "RuntimeError");
  use.samples = 3;
  use.memory_peak = Bytes{3} << 30;
  use.memory_size = Bytes{4} << 30;
  const ErrorInfo told = WithOutOfMemory({"OutOfMemoryError", "full", ""}, use);
  CHECK(told.message.find("3.0 GiB of the gpu's 4.0 GiB") != std::string::npos);
  CHECK(WithOutOfMemory({"OutOfMemoryError", "full", ""}, GpuUse{}).kind == "OutOfMemoryError");
}

}  // namespace rt::worker
