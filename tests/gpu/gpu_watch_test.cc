// The threads of a GpuWatch against a library of ours: samples, faults, hangs, what is given back.
#include "worker/gpu/gpu_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <mutex>
#include <thread>

#include "common/base/limits.h"
#include "common/run/clock.h"
#include "common/spec/resources.h"
#include "tests/gpu/watched_machine.h"

namespace rt::worker {
namespace {

constexpr char kHealthy[] =
    "GPU-a,NVIDIA H100,80000000000,ok,util=90,used=1000000000,temp=60,power=500000,sm=1980,gen=5,"
    "links=18,throttle=4\n";

}  // namespace

TEST_CASE("gpu watch: each gpu is sampled every second, and numbers it lacks are -1") {
  WatchedMachine machine;
  machine.Has(kHealthy);
  GpuWatch watch({}, machine.dir.path(), "boot1", machine.dir.File("kmsg"));
  REQUIRE(watch.Open().ok());
  watch.Start([] {});
  REQUIRE(watch.samples().size() == 1);
  const GpuSample first = watch.samples()[0];
  CHECK(first.utilisation == 90);
  CHECK(first.memory_used == 1'000'000'000);
  CHECK(first.power_milliwatts == 500'000);
  CHECK(first.nvlinks_up == 18);
  CHECK(first.ecc_corrected == -1);
  CHECK(ThrottleNames(first.throttle) == std::vector<std::string>{"power"});
  machine.Has("GPU-a,NVIDIA H100,80000000000,ok,util=10,used=1000000000\n");
  CHECK(Comes([&] { return watch.samples()[0].utilisation == 10; }));
}

TEST_CASE("gpu watch: an Xid quarantines the gpu, over a restart too, until it is cleared") {
  WatchedMachine machine;
  machine.Has("GPU-a,H,9,ok\nGPU-b,H,9,ok\n");
  std::ofstream(machine.dir.File("kmsg")) << "boot\n";
  {
    GpuWatch watch({}, machine.dir.path(), "boot1", machine.dir.File("kmsg"));
    REQUIRE(watch.Open().ok());
    std::atomic<int> struck{0};
    watch.Begin({.fence = FenceOfTrial(1), .uuids = {"GPU-a"}, .units = kUnit, .token = "t"});
    watch.Start({.on_change = [] {},
                 .on_fault =
                     [&](const Fence& fence, const std::string&) {
                       if (fence == FenceOfTrial(1)) ++struck;
                     }});
    machine.Has("GPU-a,H,9,ok,xid=79\nGPU-b,H,9,ok\n");
    CHECK(Comes([&] { return watch.units() == kUnit; }));
    CHECK(watch.gpus()[0].quarantine != 0);
    CHECK(watch.gpus()[0].facts.fault == "Xid 79: the gpu has fallen off the bus");
    CHECK(Comes([&] { return struck == 1; }));
    CHECK(watch.FaultOf(FenceOfTrial(1)).find("Xid 79") != std::string::npos);
  }
  machine.Has("GPU-a,H,9,ok\nGPU-b,H,9,ok\n");
  GpuWatch next({}, machine.dir.path(), "boot2", machine.dir.File("kmsg"));
  REQUIRE(next.Open().ok());
  next.Start([] {});
  CHECK(next.units() == kUnit);
  next.Clear("GPU-a", next.gpus()[0].quarantine - 1);
  CHECK(next.units() == kUnit);
  next.Clear("GPU-a", next.gpus()[0].quarantine);
  CHECK(next.units() == 2 * kUnit);
}

TEST_CASE("gpu watch: a probe's finding quarantines a listed gpu, and a gang's is its attempt's") {
  WatchedMachine machine;
  machine.Has("GPU-a,H,9,ok\nGPU-b,H,9,ok\n");
  std::ofstream(machine.dir.File("kmsg")) << "boot\n";
  GpuWatch watch({}, machine.dir.path(), "boot1", machine.dir.File("kmsg"));
  REQUIRE(watch.Open().ok());
  std::atomic<int> changes{0};
  watch.Begin({.fence = FenceOfTrial(1), .uuids = {"GPU-b"}, .units = kUnit, .token = "t"});
  watch.Start([&] { ++changes; });
  watch.NoteFaulty("GPU-z", "it is not here");
  watch.NoteFaulty("GPU-a", "it is slow");
  CHECK(watch.units() == kUnit);
  CHECK(watch.gpus()[0].facts.fault == "it is slow");
  CHECK(Comes([&] { return changes > 0; }));
  const uint64_t number = watch.gpus()[0].quarantine;
  watch.NoteFaulty("GPU-a", "it is slower");  // The head repeats it until it has heard.
  CHECK(watch.gpus()[0].quarantine == number);
  CHECK(watch.FaultOf(FenceOfTrial(1)).empty());
  watch.BlameMachine(FenceOfTrial(1), "node 1 of the gang has a gpu at fault");
  CHECK(watch.FaultOf(FenceOfTrial(1)) == "node 1 of the gang has a gpu at fault");
  CHECK(watch.units() == kUnit);
}

TEST_CASE(
    "gpu watch: the kernel's log is enough; a user's Xid changes nothing, a grave one drains") {
  WatchedMachine machine;
  machine.Has("GPU-a,H,9,ok\nGPU-b,H,9,ok\n");
  const std::string log = machine.dir.File("kmsg");
  std::ofstream(log) << "boot\n";
  GpuWatch watch({}, machine.dir.path(), "boot1", log);
  REQUIRE(watch.Open().ok());
  std::mutex mutex;
  std::string drain;
  watch.Start({.on_change = [] {},
               .on_drain =
                   [&](const std::string& why) {
                     std::lock_guard lock(mutex);
                     drain = why;
                   }});
  auto said = [&] {
    std::lock_guard lock(mutex);
    return drain;
  };
  std::ofstream(log, std::ios::app) << "NVRM: Xid (PCI:0000:10:00): 31, pid=1\n"
                                    << "NVRM: Xid (PCI:0000:11:00): 119, pid=1\n";
  CHECK(Comes([&] { return !said().empty(); }));
  CHECK(said().find("GPU-b: Xid 119") != std::string::npos);
  CHECK(watch.gpus()[0].facts.fault.empty());
  watch.Clear("GPU-b", watch.gpus()[1].quarantine);
  CHECK(Comes([&] { return said().empty(); }));
}

TEST_CASE("gpu watch: what an attempt left is ended, and its gpu is free at once after that") {
  WatchedMachine machine;
  machine.Has("GPU-a,H,80000000000,ok,used=500000000\n");
  GpuWatch watch({}, machine.dir.path(), "boot1", machine.dir.File("kmsg"));
  REQUIRE(watch.Open().ok());
  std::atomic<bool> told{false};
  watch.Start({.on_change = [] {}, .on_given_back = [&] { told = true; }});
  const Fence fence = FenceOfTrial(1);
  watch.Begin({.fence = fence, .uuids = {"GPU-a"}, .units = kUnit, .token = "0123456789abcdef"});
  Leftover7 left;
  machine.Has("GPU-a,H,80000000000,ok,used=9000000000,pid_mem=8000000000,pid=" +
              std::to_string(left.pid) + "\n");
  CHECK(!watch.IsGivenBack(fence));
  watch.End(fence);
  CHECK(Comes([&] { return left.HasEnded(); }));
  CHECK(!watch.IsGivenBack(fence));
  machine.Has("GPU-a,H,80000000000,ok,used=500000000\n");
  CHECK(Comes([&] { return watch.IsGivenBack(fence) && told; }));
  CHECK(watch.units() == kUnit);
}

TEST_CASE("gpu watch: a process that cannot be looked at holds up no answer") {
  WatchedMachine machine;
  machine.Has("GPU-a,H,80000000000,ok,used=500000000\n");
  const std::string environment = machine.dir.File("7/environ");
  REQUIRE(::mkdir(machine.dir.File("7").c_str(), 0700) == 0);
  REQUIRE(::mkfifo(environment.c_str(), 0600) == 0);  // Opening it waits for a writer.
  GpuWatch watch({}, machine.dir.path(), "boot1", machine.dir.File("kmsg"), /*call_max=*/300,
                 machine.dir.path());
  REQUIRE(watch.Open().ok());
  watch.Start([] {});
  machine.Has("GPU-a,H,80000000000,ok,used=9000000000,pid_mem=8000000000,pid=7\n");
  // What is asked of another thread, because it would never come back.
  std::atomic<bool> is_hung{false}, answers{false};
  std::thread asking([&] {
    is_hung = Comes([&] { return watch.units() == 0; });
    watch.UseOf(FenceOfTrial(1));
    answers = true;
  });
  CHECK(Comes([&] { return answers.load(); }));
  CHECK(is_hung);
  machine.Has("GPU-a,H,80000000000,ok,used=500000000\n");
  Comes([&] {  // A writer that comes and goes; nobody reads it any more when this cannot open.
    const int writer = ::open(environment.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (writer >= 0) ::close(writer);
    return answers && watch.units() == kUnit;
  });
  asking.join();
  CHECK(watch.units() == kUnit);
}

TEST_CASE("gpu watch: a pid that is another program's by now is not ended") {
  WatchedMachine machine;
  machine.Has("GPU-a,H,80000000000,ok\n");
  GpuWatch watch({}, machine.dir.path(), "boot1", machine.dir.File("kmsg"));
  REQUIRE(watch.Open().ok());
  watch.Start([] {});
  int go[2];
  REQUIRE(::pipe2(go, O_CLOEXEC) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(go[0], 0);
    ::execle("/bin/sh", "sh", "-c", "read go; exec env -i OTHER=1 sleep 60", nullptr,
             Leftover7::Environment().data());
    ::_exit(1);
  }
  Leftover7 process(pid);
  const Fence fence = FenceOfTrial(1);
  watch.Begin(
      {.fence = fence, .uuids = {"GPU-a"}, .units = kUnit / 2, .token = "0123456789abcdef"});
  machine.Has("GPU-a,H,80000000000,ok,pid_mem=8000000000,pid=" + std::to_string(pid) + "\n");
  CHECK(Comes([&] {
    const std::vector<GpuSample> samples = watch.samples();
    return samples.size() == 1 && samples[0].processes.size() == 1 &&
           samples[0].processes[0].attempt == "t1-1.a1.r0";
  }));
  REQUIRE(::write(go[1], "\n", 1) == 1);
  CHECK(Comes([&] { return process.Is("OTHER=1"); }));
  watch.End(fence);
  CHECK(Comes([&] { return watch.IsGivenBack(fence); }));
  CHECK(!process.HasEnded());
  for (const int end : go) ::close(end);
}

TEST_CASE(
    "gpu watch: memory that stays in use keeps the gpu from the next attempt, until it is free") {
  WatchedMachine machine;
  machine.Has("GPU-a,H,80000000000,ok,used=500000000\n");
  GpuWatch watch({}, machine.dir.path(), "boot1", machine.dir.File("kmsg"));
  REQUIRE(watch.Open().ok());
  watch.Start([] {});
  const Fence fence = FenceOfTrial(1);
  watch.Begin({.fence = fence, .uuids = {"GPU-a"}, .units = kUnit, .token = "x"});
  machine.Has("GPU-a,H,80000000000,ok,used=9000000000\n");
  watch.End(fence);
  CHECK(Comes([&] { return watch.IsGivenBack(fence); }));
  CHECK(watch.units() == 0);
  CHECK(watch.gpus()[0].facts.fault.find("in use after t1-1.a1.r0 has ended") != std::string::npos);
  CHECK(watch.gpus()[0].quarantine == 0);
  machine.Has("GPU-a,H,80000000000,ok,used=500000000\n");
  CHECK(Comes([&] { return watch.units() == kUnit; }));
}

TEST_CASE("gpu watch: the memory of an attempt that is taken over is not that of the idle gpu") {
  WatchedMachine machine;
  machine.Has("GPU-a,H,80000000000,ok,used=1000000000\n");
  GpuWatch watch({}, machine.dir.path(), "boot1", machine.dir.File("kmsg"));
  REQUIRE(watch.Open().ok());  // The first sample sees what a daemon before this one started.
  watch.Start([] {});
  const Fence fence = FenceOfTrial(1);
  watch.Begin(
      {.fence = fence, .uuids = {"GPU-a"}, .units = kUnit, .token = "x", .is_adopted = true});
  machine.Has("GPU-a,H,80000000000,ok,used=9000000000\n");
  watch.End(fence);
  CHECK(Comes([&] { return watch.IsGivenBack(fence); }));
  CHECK(watch.units() == kUnit);
}

TEST_CASE("gpu watch: a drain of a gpu that the worker does not have ends with it") {
  WatchedMachine machine;
  machine.Has("GPU-a,H,9,ok\nGPU-b,H,9,ok\n");
  const std::string log = machine.dir.File("kmsg");
  std::ofstream(log) << "boot\n";
  {
    GpuWatch watch({}, machine.dir.path(), "boot1", log);
    REQUIRE(watch.Open().ok());
    watch.Start([] {});
    std::ofstream(log, std::ios::app) << "NVRM: Xid (PCI:0000:11:00): 119, pid=1\n";
    CHECK(Comes([&] { return watch.units() == kUnit; }));
  }
  const auto drains = [&](const std::string& boot, const GpuChoice& choice) {
    GpuWatch watch(choice, machine.dir.path(), boot, log);
    REQUIRE(watch.Open().ok());
    std::atomic<bool> said{false};
    watch.Start(
        {.on_change = [] {}, .on_drain = [&](const std::string& why) { said = !why.empty(); }});
    return said.load();  // Start tells what there is to tell.
  };
  CHECK(drains("boot1", {}));
  CHECK(!drains("boot1", {.share = 0, .shares = 2}));
  CHECK(drains("boot1", {.share = 1, .shares = 2}));
  machine.Has("GPU-a,H,9,ok\nGPU-c,H,9,ok\n");
  CHECK(!drains("boot2", {}));
}

TEST_CASE("gpu watch: no end of an attempt is told before the fault that the kernel logged") {
  WatchedMachine machine;
  machine.Has("GPU-a,H,80000000000,ok\n");
  const std::string log = machine.dir.File("kmsg");
  std::ofstream(log) << "boot\n";
  GpuWatch watch({}, machine.dir.path(), "boot1", log);
  REQUIRE(watch.Open().ok());
  watch.Start([] {});
  for (uint32_t trial = 1; trial <= 5; ++trial) {  // The log is read every half second anyway.
    const Fence fence = FenceOfTrial(trial);
    watch.Begin({.fence = fence, .uuids = {"GPU-a"}, .units = kUnit, .token = "t"});
    std::ofstream(log, std::ios::app) << "NVRM: Xid (PCI:0000:10:00): 79, pid=1\n";
    watch.End(fence);
    CHECK(Comes([&] { return watch.IsGivenBack(fence); }));
    CHECK(watch.FaultOf(fence).find("Xid 79") != std::string::npos);
    CHECK(watch.units() == 0);
    watch.Clear("GPU-a", watch.gpus()[0].quarantine);
  }
}

TEST_CASE("gpu watch: no end of an attempt is told before the gpu's quarantine") {
  WatchedMachine machine;
  machine.Has("GPU-a,H,80000000000,ok\n");
  GpuWatch watch({}, machine.dir.path(), "boot1", machine.dir.File("kmsg"));
  REQUIRE(watch.Open().ok());
  const Fence fence = FenceOfTrial(1);
  watch.Begin({.fence = fence, .uuids = {"GPU-a"}, .units = kUnit, .token = "t"});
  std::atomic<bool> told{false}, was_early{false};
  watch.Start([&] {
    watch.End(fence);
    for (int i = 0; i < 30 && !was_early; ++i) {  // What an attempt left is looked at every 10 ms.
      was_early = watch.IsGivenBack(fence);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    told = true;
  });
  machine.Has("GPU-a,H,80000000000,ok,xid=79\n");
  CHECK(Comes([&] { return told.load(); }));
  CHECK(!was_early);
  CHECK(Comes([&] { return watch.IsGivenBack(fence); }));
}

}  // namespace rt::worker
