// A driver that hangs: what a GpuWatch says of its gpus, and that nothing waits for the driver.
#include <stdlib.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

#include "common/base/limits.h"
#include "common/run/clock.h"
#include "common/spec/resources.h"
#include "tests/gpu/watched_machine.h"
#include "worker/gpu/gpu_watch.h"

namespace rt::worker {
namespace {

constexpr char kWell[] = "GPU-a,H,80000000000,ok,used=500000000\n";
constexpr char kOther[] = "GPU-b,H,80000000000,ok,used=500000000\n";
constexpr char kHung[] = "GPU-a,H,80000000000,hang\n";
constexpr char kWhy[] = "NVML did not answer about it for 0.3 s";

struct HungMachine : WatchedMachine {
  GpuWatch watch{{}, dir.path(), "boot1", dir.File("kmsg"), /*call_max=*/300};
  ~HungMachine() { Has(kWell); }  // The thread that is left behind can end.
  std::string FaultAt(size_t index) const {
    const std::vector<Gpu> gpus = watch.gpus();
    return index < gpus.size() ? gpus[index].facts.fault : "it is not listed";
  }
};

}  // namespace

TEST_CASE("gpu hang: the gpu that hangs is quarantined, others take work once NVML answers") {
  HungMachine machine;
  machine.Has(std::string(kWell) + kOther);
  REQUIRE(machine.watch.Open().ok());
  std::mutex mutex;
  std::vector<Fence> struck;
  std::atomic<bool> drains{false};
  for (uint32_t trial : {1, 2})
    machine.watch.Begin({.fence = FenceOfTrial(trial),
                         .uuids = {trial == 1 ? "GPU-a" : "GPU-b"},
                         .units = kUnit,
                         .token = std::to_string(trial)});
  machine.watch.Start({.on_change = [] {},
                       .on_fault =
                           [&](const Fence& fence, const std::string&) {
                             std::lock_guard lock(mutex);
                             struck.push_back(fence);
                           },
                       .on_drain = [&](const std::string&) { drains = true; }});
  machine.Has(std::string(kHung) + kOther);
  CHECK(Comes([&] { return machine.FaultAt(0) == kWhy; }));
  CHECK(machine.watch.gpus()[0].quarantine != 0);
  CHECK(machine.FaultAt(1) == "its driver does not answer: a call about gpu GPU-a hangs");
  CHECK(machine.watch.units() == 0);
  CHECK(machine.watch.HangOf(FenceOfTrial(2)) == machine.FaultAt(1));
  CHECK(Comes([&] {
    std::lock_guard lock(mutex);
    return struck == std::vector<Fence>{FenceOfTrial(1)};
  }));
  CHECK(machine.watch.FaultOf(FenceOfTrial(1)) == std::string("gpu GPU-a: ") + kWhy);
  CHECK(machine.watch.FaultOf(FenceOfTrial(2)).empty());
  machine.Has(std::string(kWell) + kOther);
  CHECK(Comes([&] { return machine.watch.units() == kUnit; }));
  CHECK(machine.FaultAt(0) == kWhy);  // Until a person or a probe ends it.
  CHECK(machine.FaultAt(1).empty());
  CHECK(machine.watch.HangOf(FenceOfTrial(2)).empty());
  machine.watch.Clear("GPU-a", machine.watch.gpus()[0].quarantine);
  CHECK(machine.watch.units() == 2 * kUnit);
  CHECK(!drains);  // Trials that need no gpu are placed on the node all the time.
}

TEST_CASE("gpu hang: a gpu that hangs as the daemon starts is named before any was listed") {
  HungMachine machine;
  machine.Has(kHung);
  REQUIRE(machine.watch.Open().ok());
  std::atomic<int> changes{0};
  machine.watch.Start([&] { ++changes; });
  CHECK(Comes([&] { return machine.FaultAt(0).ends_with("a call about gpu GPU-a hangs"); }));
  CHECK(machine.watch.gpus()[0].facts.uuid == "GPU-a");
  CHECK(machine.watch.units() == 0);
  machine.Has(kWell);
  CHECK(Comes([&] { return machine.FaultAt(0) == kWhy && changes > 0; }));
  CHECK(machine.watch.units() == 0);
}

TEST_CASE("gpu hang: a library that does not start names no gpu, and all are offered later") {
  HungMachine machine;
  machine.Has(kWell);
  const std::string hang = machine.dir.File("hang");
  std::ofstream(hang) << "now";
  ::setenv("FAKE_NVML_HANG", hang.c_str(), 1);
  REQUIRE(machine.watch.Open().ok());
  REQUIRE(machine.watch.gpus().size() == 1);
  CHECK(machine.watch.gpus()[0].facts.uuid == "unknown");
  CHECK(machine.FaultAt(0) == "its driver does not answer");
  CHECK(machine.watch.units() == 0);
  // An attempt of a daemon before this one, which ends meanwhile: its gpu is checked later.
  const Fence fence = FenceOfTrial(1);
  Leftover7 left;
  machine.watch.Begin({.fence = fence,
                       .uuids = {"GPU-a"},
                       .units = kUnit,
                       .token = "0123456789abcdef",
                       .is_adopted = true});
  machine.watch.Start([] {});
  machine.watch.End(fence);
  CHECK(machine.watch.IsGivenBack(fence));
  machine.watch.Forget(fence);
  machine.Has("GPU-a,H,80000000000,ok,used=9000000000,pid_mem=8000000000,pid=" +
              std::to_string(left.pid) + "\n");
  ::remove(hang.c_str());
  CHECK(Comes([&] { return left.HasEnded(); }));
  CHECK(machine.watch.units() == 0);
  machine.Has(kWell);
  CHECK(Comes([&] { return machine.watch.units() == kUnit; }));
  CHECK(machine.FaultAt(0).empty());
  ::unsetenv("FAKE_NVML_HANG");
}

TEST_CASE("gpu hang: an end is told at once, and its gpu is checked before it takes work again") {
  HungMachine machine;
  machine.Has(std::string(kWell) + kOther);
  REQUIRE(machine.watch.Open().ok());
  std::atomic<bool> told{false};
  machine.watch.Start({.on_change = [] {}, .on_given_back = [&] { told = true; }});
  for (uint32_t trial : {1, 2})
    machine.watch.Begin({.fence = FenceOfTrial(trial),
                         .uuids = {"GPU-b"},
                         .units = kUnit / 2,
                         .token = trial == 1 ? "0123456789abcdef" : "2"});
  Leftover7 left;
  const std::string uses =
      "GPU-b,H,80000000000,ok,used=9000000000,pid_mem=8000000000,pid=" + std::to_string(left.pid) +
      "\n";
  machine.watch.End(FenceOfTrial(2));
  machine.Has(kHung + uses);
  CHECK(Comes([&] { return machine.FaultAt(0) == kWhy; }));
  CHECK(Comes([&] { return machine.watch.IsGivenBack(FenceOfTrial(2)) && told; }));
  machine.watch.End(FenceOfTrial(1));
  CHECK(machine.watch.IsGivenBack(FenceOfTrial(1)));
  machine.watch.Forget(FenceOfTrial(1));
  machine.watch.Forget(FenceOfTrial(2));
  machine.Has(kWell + uses);
  CHECK(Comes([&] { return left.HasEnded(); }));
  CHECK(machine.watch.units() == 0);
  CHECK(Comes([&] { return machine.FaultAt(1).find("memory") != std::string::npos; }));
  machine.Has(std::string(kWell) + kOther);
  CHECK(Comes([&] { return machine.watch.units() == kUnit; }));
  CHECK(machine.FaultAt(1).empty());
}

TEST_CASE("gpu hang: a driver that hangs does not hold up the end of the watch") {
  HungMachine machine;
  machine.Has(kWell);
  REQUIRE(machine.watch.Open().ok());
  machine.watch.Start([] {});
  machine.Has(kHung);
  CHECK(Comes([&] { return machine.watch.units() == 0; }));
  const Millis before = SteadyClock();
  machine.watch.Stop();
  CHECK(SteadyClock() - before < 6'000);
}

TEST_CASE("gpu hang: a driver that begins to hang at the end does not hold up the end") {
  WatchedMachine machine;
  machine.Has("GPU-a,H,80000000000,ok\n");
  auto watch = std::make_unique<GpuWatch>(GpuChoice{}, machine.dir.path(), "boot1",
                                          machine.dir.File("kmsg"), /*call_max=*/600'000);
  REQUIRE(watch->Open().ok());
  watch->Start([] {});
  machine.Has("GPU-a,H,80000000000,hang\n");
  const int64_t at = watch->samples()[0].at;  // The call after the last sample hangs.
  CHECK(Comes([&] { return WallClock() - at > 2 * limits::kGpuSampleEvery; }));
  std::atomic<bool> ended{false};
  std::atomic<Millis> again{0};
  std::thread end([&] {
    watch->Stop();
    const Millis stopped_at = SteadyClock();
    watch.reset();  // It stops the watch as well.
    again = SteadyClock() - stopped_at;
    ended = true;
  });
  CHECK(Comes([&] { return ended.load(); }));
  CHECK(again < 1'000);
  machine.Has(kWell);  // The thread that was left behind can end.
  end.join();
}

}  // namespace rt::worker
