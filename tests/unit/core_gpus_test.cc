// Shares of gpus: which device a trial gets, and what the head says of it.
#include "head/core/devices.h"
#include "head/core/draft.h"
#include "head/core/places.h"
#include "head/view/why.h"
#include "tests/unit/core_story.h"

using namespace rt;

namespace {

// The story's node with some gpus of its own.
void GiveGpus(Story& story, int count, const std::string& sick = "") {
  input::Sync sync = story.SyncInput();
  sync.inventory.resources = {.cpu = 16 * kUnit};
  for (int i = 0; i < count; ++i) {
    const std::string uuid = "GPU-" + std::to_string(i);
    sync.inventory.gpus.push_back({uuid, static_cast<uint32_t>(i), "H200", 1, ""});
    if (uuid == sick) sync.inventory.gpus.back().fault = "it is lost";
    else sync.inventory.resources.gpu += kUnit;
  }
  story.Do(sync);
}

std::vector<uint32_t> GpusOf(Story& story, uint32_t trial) {
  const Attempt* live = story.TrialOf(trial).runs.live();
  return live == nullptr ? std::vector<uint32_t>{99} : live->members.front().gpus;
}

std::vector<FreeDevice> Devices(const std::vector<int64_t>& units) {
  std::vector<FreeDevice> devices;
  for (int64_t one : units) devices.push_back({static_cast<uint32_t>(devices.size()), one});
  return devices;
}

using Gpus = std::vector<uint32_t>;

}  // namespace

TEST_CASE("devices: what fits is exactly what is not above the largest request") {
  const auto devices = Devices({kUnit, 2'500, kUnit, 7'000});
  const int64_t largest = LargestGpuRequest(devices);
  CHECK(largest == 2 * kUnit + 7'000);
  for (int64_t units : {int64_t{1}, int64_t{7'000}, int64_t{7'001}, kUnit, 2 * kUnit, 3 * kUnit}) {
    auto left = devices;
    CHECK(TakeDevices(left, units, false).has_value() == (units <= largest));
  }
  CHECK(LargestGpuRequest(Devices({9'999, 9'999})) == 9'999);
}

TEST_CASE("devices: shares are packed onto the fullest device, or spread to the emptiest") {
  auto devices = Devices({kUnit, 2'500, 7'000});
  CHECK(TakeDevices(devices, 2'500, false) == Gpus{1});
  CHECK(TakeDevices(devices, 2'500, false) == Gpus{2});
  CHECK(TakeDevices(devices, 1, true) == Gpus{0});
  CHECK(!TakeDevices(devices, kUnit, false).has_value());
}

TEST_CASE("gpus: four quarters share one device, and the fifth takes the next") {
  Story story;
  GiveGpus(story, 2);
  story.Create(R"(,"num_samples":5,"resources":{"gpu":0.25})");
  for (uint32_t trial : {0, 1, 2, 3}) CHECK(GpusOf(story, trial) == Gpus{0});
  CHECK(GpusOf(story, 4) == Gpus{1});
  const Json node = *NodeView(story.core, {}, story.node);
  CHECK(node.Find("gpus")->array()[0].GetDouble("used_fraction") == 1.0);
  CHECK(node.Find("gpus")->array()[1].GetDouble("used_fraction") == 0.25);
  CHECK(node.Find("attempts")->array().size() == 5);
}

TEST_CASE("gpus: spread shares go to the emptiest device") {
  Story story;
  GiveGpus(story, 2);
  story.Create(R"(,"num_samples":3,"resources":{"gpu":0.25,"gpu_sharing":"spread"})");
  CHECK(GpusOf(story, 0) == Gpus{0});
  CHECK(GpusOf(story, 1) == Gpus{1});
  CHECK(GpusOf(story, 2) == Gpus{0});
}

TEST_CASE("gpus: two halves of different devices are not one whole") {
  Story story;
  GiveGpus(story, 2);
  story.Create(R"(,"num_samples":2,"resources":{"gpu":0.6})");
  CHECK(GpusOf(story, 0) == Gpus{0});
  CHECK(GpusOf(story, 1) == Gpus{1});
  story.Do(input::CreateExperiment{
      .spec = R"({"experiment":"w","command":["x"],"resources":{"gpu":1}})",
      .drawn_seed = 1, .results_root = "/r"});
  const Waiting waits = WhyWaiting(story.core, Owner::Of(TrialId{{2}, 0}), story.now);
  CHECK(waits.reason.find("0.4 of 2 gpu free") != std::string::npos);
}

TEST_CASE("gpus: a program is told the uuids of its devices") {
  Story story;
  GiveGpus(story, 3);
  story.Create(R"(,"resources":{"gpu":2})");
  CHECK(LaunchSpecFor(story.core.world, story.FenceOf(0)).gpu_uuids ==
        std::vector<std::string>{"GPU-0", "GPU-1"});
  const Json trial = *TrialView(story.core, {}, {{1}, 0});
  const Json& member = trial.Find("attempts")->array()[0].Find("members")->array()[0];
  CHECK(member.Find("gpus")->Dump() == R"(["GPU-0","GPU-1"])");
}

TEST_CASE("gpus: a device with a fault takes no new work, and attempts on it keep running") {
  Story story;
  GiveGpus(story, 2);
  story.Create(R"(,"num_samples":2,"max_concurrent":1,"resources":{"gpu":1})");
  story.SyncTwice();
  CHECK(GpusOf(story, 0) == Gpus{0});
  GiveGpus(story, 2, "GPU-0");
  CHECK(story.StateOf(0) == "RUNNING");
  const Json node = *NodeView(story.core, {}, story.node);
  CHECK(node.Find("gpus")->array()[0].GetString("state") == "UNHEALTHY");
  story.running[story.FenceOf(0)].phase = Observed::Phase::kExited;
  GiveGpus(story, 2, "GPU-0");
  story.running.clear();
  GiveGpus(story, 2, "GPU-0");
  CHECK(GpusOf(story, 1) == Gpus{1});
}

TEST_CASE("gpus: several for one rank come from one island, the smallest that has them") {
  auto devices = Devices({kUnit, kUnit, kUnit, kUnit, kUnit, kUnit});
  const uint32_t islands[] = {0, 1, 1, 1, 0, 2};
  for (size_t i = 0; i < devices.size(); ++i) devices[i].island = islands[i];
  auto take = [&](int64_t gpus) {
    auto left = devices;
    return *TakeDevices(left, gpus * kUnit, false);
  };
  CHECK(take(1) == Gpus{0});
  CHECK(take(2) == Gpus{0, 4});
  CHECK(take(3) == Gpus{1, 2, 3});
  CHECK(take(4) == Gpus{0, 1, 2, 3});  // The largest island, and one of the next.
  CHECK(take(6) == Gpus{0, 1, 2, 3, 4, 5});
}

TEST_CASE("gpus: what a node samples is shown, and what an attempt made of its gpus is kept") {
  Story story;
  GiveGpus(story, 1);
  story.Create(R"(,"resources":{"gpu":1})");
  story.SyncTwice();
  const Fence fence = story.FenceOf(0);
  story.running[fence].gpu = {.devices = 1,
                              .samples = 4,
                              .idle_samples = 1,
                              .device_ms = 4'000,
                              .utilisation_mean = 50,
                              .utilisation_peak = 90,
                              .memory_mean = 5,
                              .memory_peak = 7,
                              .memory_size = 9,
                              .power_mean = 300,
                              .power_peak = 400,
                              .temperature_peak = 60};
  input::Sync sync = story.SyncInput();
  sync.inventory.gpus.push_back({"GPU-0", 0, "H200", 1, ""});
  sync.inventory.resources.gpu = kUnit;
  GpuSample sample;
  sample.uuid = "GPU-0";
  sample.utilisation = 42;
  sample.power_milliwatts = 1'500;
  sync.gpu_samples = {sample};
  story.Do(sync);
  const Json node = *NodeView(story.core, {}, story.node);
  const Json& told = *node.Find("gpus")->array()[0].Find("telemetry");
  CHECK(told.GetInt("utilisation_percent") == 42);
  CHECK(told.Find("power_w")->AsDouble() == Approx(1.5));
  CHECK(told.Find("temperature_c")->is_null());
  auto use = [&] {
    const Json trial = *TrialView(story.core, {}, story.TrialOf(0).id);
    return *trial.Find("attempts")->array()[0].Find("gpu");
  };
  CHECK(use().Find("gpu_s")->AsDouble() == Approx(4));
  CHECK(use().Find("idle_share")->AsDouble() == Approx(0.25));
  story.Exit(fence, 0, 0);
  story.running.clear();
  CHECK(use().GetInt("memory_peak_bytes") == 7);
}

TEST_CASE("gpus: a node whose gpus are not known yet may have any, until it has joined") {
  Story story;
  story.core.soft.node_types = {{.cpu = 16 * kUnit, .gpu = kAnyGpus}};
  auto submit = [&](int gpus) {
    return story.Do(input::CreateExperiment{
        .spec = R"({"experiment":"e","command":["x"],"resources":{"gpu":)" + std::to_string(gpus) +
                "}}", .drawn_seed = 1, .results_root = "/r"}).verdict;
  };
  CHECK(!submit(1).ok());  // The story's node has joined without a gpu.
  story.core.soft.node_types.push_back({.cpu = 16 * kUnit, .gpu = kAnyGpus});
  CHECK(submit(1).ok());
}
