// The gpus that a worker finds and offers, with a library of ours in the place of NVIDIA's.
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "common/base/status.h"
#include "common/spec/resources.h"
#include "tests/temp_dir.h"
#include "worker/gpu/gpu_list.h"
#include "worker/gpu/gpu_watch.h"

namespace rt::worker {
namespace {

struct Machine {
  TempDir dir{"gpu"};
  const std::string& path = dir.path();
  Machine() { ::setenv("FAKE_NVML", dir.File("gpus.txt").c_str(), 1); }
  ~Machine() { ::unsetenv("FAKE_NVML"); }
  void Has(const std::string& lines) const { std::ofstream(path + "/gpus.txt") << lines; }
};

std::vector<FoundGpu> Listed() {
  auto nvml = Nvml::Open();
  REQUIRE(nvml.ok());
  auto found = nvml->List();
  REQUIRE(found.ok());
  return *found;
}

FoundGpu Found(const std::string& uuid, const std::string& name, Bytes memory) {
  FoundGpu gpu;
  gpu.uuid = uuid;
  gpu.name = name;
  gpu.memory = memory;
  return gpu;
}

Gpu Known(uint32_t index, const std::string& uuid) {
  return {.index = index, .facts = Found(uuid, "H", 9)};
}

std::vector<std::string> Uuids(const std::vector<Gpu>& gpus) {
  std::vector<std::string> uuids;
  for (const Gpu& gpu : gpus) uuids.push_back(gpu.facts.uuid);
  return uuids;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("gpu: an island is gpus that are joined each with each, and not all that have links") {
  Machine machine;
  using Islands = std::vector<uint32_t>;
  const auto islands = [&](const std::vector<std::string>& joined) {
    std::string lines;
    for (size_t i = 0; i < joined.size(); ++i)
      lines += "GPU-" + std::to_string(i) + ",H,9,ok," + joined[i] + "\n";
    machine.Has(lines);
    Islands numbers;
    for (const FoundGpu& gpu : Listed()) numbers.push_back(gpu.island);
    return numbers;
  };
  // Bridges join pairs.
  CHECK(islands({"links=4,peer=1", "links=4,peer=0", "links=4,peer=3", "links=4,peer=2"}) ==
        Islands{0, 0, 2, 2});
  CHECK(islands({"links=18,switch=1", "links=18,switch=1", "links=18,switch=2"}) ==
        Islands{0, 0, 2});
  CHECK(islands({"links=4,peer=1", "links=4,peer=2", "links=4,peer=1"}) == Islands{0, 0, 2});
  // A driver that does not say where they end.
  CHECK(islands({"links=18", "links=18", "links=0"}) == Islands{0, 0, 2});
  CHECK(islands({"island=1", "island=2", "island=1"}) == Islands{0, 1, 0});
}

TEST_CASE("gpu: NVML tells uuid, name, memory and health, and slices instead of a sliced gpu") {
  Machine machine;
  machine.Has(
      "GPU-a,NVIDIA H200,150000000000,ok\n"
      "GPU-b,NVIDIA A100,80000000000,ok\n"
      "+MIG-1,NVIDIA A100 MIG 3g.40gb,40000000000,ok\n"
      "+MIG-2,NVIDIA A100 MIG 3g.40gb,40000000000,ok\n"
      ",NVIDIA H200,150000000000,ok\n"  // Without a uuid, as no program could name it.
      "GPU-c,NVIDIA H200,150000000000,lost\n");
  const auto found = Listed();
  REQUIRE(found.size() == 4);
  FoundGpu first = Found("GPU-a", "NVIDIA H200", 150'000'000'000);
  first.bus = "0000:10:00";
  CHECK(found[0] == first);
  CHECK(found[1].name == "NVIDIA A100 MIG 3g.40gb");
  CHECK(found[1].memory == 40'000'000'000);
  CHECK(found[1].bus == "0000:11:00");  // Of the gpu that it is a slice of.
  CHECK(found[2].uuid == "MIG-2");
  CHECK(found[3].fault == "NVML: GPU is lost");
}

TEST_CASE("gpu: a library without its driver is an error that says so") {
  Machine machine;
  ::unsetenv("FAKE_NVML");
  auto nvml = Nvml::Open();
  REQUIRE(!nvml.ok());
  CHECK(absl::IsFailedPrecondition(nvml.status()));
  CHECK(MessageOf(nvml.status()).find("Driver Not Loaded") != std::string::npos);
}

TEST_CASE("gpu: a gpu keeps its number when another falls off the bus or is added") {
  const std::vector<Gpu> known = {Known(0, "GPU-a"), Known(1, "GPU-b")};
  const auto now = NumberGpus(known, {Found("GPU-c", "H", 9), Found("GPU-b", "H", 9)});
  REQUIRE(Uuids(now) == Names{"GPU-a", "GPU-b", "GPU-c"});
  CHECK(now[0].facts.fault.find("fell off the bus") != std::string::npos);
  CHECK(now[1] == known[1]);
  CHECK(now[2].index == 2);
}

TEST_CASE("gpu: the next daemon of the same boot knows the numbers, after a boot they start anew") {
  const std::vector<Gpu> gpus = {Known(0, "GPU-a"), Known(1, "GPU-b")};
  const std::string text = RememberGpus(gpus, "boot1");
  CHECK(RecallGpus(text, "boot1") == gpus);
  CHECK(RecallGpus(text, "boot2").empty());
  CHECK(RecallGpus("", "boot1").empty());
  CHECK(RecallGpus("[1", "boot1").empty());
}

TEST_CASE("gpu: what a worker offers follows CUDA_VISIBLE_DEVICES, its share and its resources") {
  const std::vector<Gpu> all = {Known(0, "GPU-aa"), Known(1, "GPU-bb"), Known(2, "GPU-cc"),
                                Known(3, "GPU-dd")};
  auto offered = [&](const GpuChoice& choice) { return Uuids(*ChooseGpus(all, choice)); };
  CHECK(offered({}) == Names{"GPU-aa", "GPU-bb", "GPU-cc", "GPU-dd"});
  CHECK(offered({.visible = "2,GPU-aa"}) == Names{"GPU-cc", "GPU-aa"});
  CHECK(offered({.visible = ""}).empty());
  CHECK(offered({.visible = "1,-1,2"}) == Names{"GPU-bb"});
  CHECK(offered({.share = 0, .shares = 3}) == Names{"GPU-aa"});
  CHECK(offered({.share = 2, .shares = 3}) == Names{"GPU-cc", "GPU-dd"});
  CHECK(offered({.share = 1, .shares = 2, .units = kUnit}) == Names{"GPU-bb"});
  const auto refused = ChooseGpus(all, {.units = 5 * kUnit});
  REQUIRE(!refused.ok());
  CHECK(MessageOf(refused.status()).find("gpu=5") != std::string::npos);
}

TEST_CASE("gpu: gpus named by hand on a machine without NVML go by their numbers") {
  const GpuChoice choice{.units = 3 * kUnit / 2};
  const auto gpus = ChooseGpus({}, choice);
  REQUIRE(gpus.ok());
  CHECK(Uuids(*gpus) == Names{"0", "1"});
  CHECK(GpuUnits(*gpus, choice) == 3 * kUnit / 2);
}

TEST_CASE("gpu: a gpu with a fault is listed and takes no work") {
  Machine machine;
  machine.Has("GPU-a,H,9,ok\nGPU-b,H,9,reset\n");
  GpuWatch watch({}, machine.path, "boot1");
  REQUIRE(watch.Open().ok());
  REQUIRE(watch.gpus().size() == 2);
  CHECK(watch.units() == kUnit);
  machine.Has("GPU-b,H,9,ok\n");
  GpuWatch next({}, machine.path, "boot1");
  REQUIRE(next.Open().ok());
  REQUIRE(Uuids(next.gpus()) == Names{"GPU-a", "GPU-b"});
  CHECK(next.gpus()[1].index == 1);
  CHECK(next.units() == kUnit);
}

}  // namespace rt::worker
