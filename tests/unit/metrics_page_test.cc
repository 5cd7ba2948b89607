// What Prometheus reads of the gpus of a cluster.
#include "head/service/metrics_page.h"

#include <catch2/catch.hpp>

#include "tests/unit/core_story.h"

namespace rt {

TEST_CASE("metrics: gpus are copied from the state, and their text is written without it") {
  GpuMetrics gpus;
  {
    Story story;
    input::Sync sync = story.SyncInput();
    sync.inventory.resources.gpu = kUnit;
    sync.inventory.gpus = {{.uuid = "GPU-a", .index = 0, .name = "H"},
                           {.uuid = "GPU-b", .index = 1, .name = "H", .fault = "Xid 79"}};
    story.Do(sync);
    GpuSample sample;
    sample.uuid = "GPU-a";
    sample.utilisation = 90;
    sample.power_milliwatts = 500'500;
    sample.temperature = -1;  // Unknown.
    story.core.soft.nodes.at(story.node).gpu_samples = {sample};
    gpus = GpuMetrics::Of(story.core);
    CHECK(MetricsPage(story.core, {}).find("rt_gpu") == std::string::npos);
  }
  const std::string text = gpus.Text();
  const auto has = [&](const std::string& line) { return text.find(line) != std::string::npos; };
  CHECK(has("rt_gpu_utilisation_percent{node=\"n1\",gpu=\"GPU-a\"} 90\n"));
  CHECK(has("rt_gpu_power_watts{node=\"n1\",gpu=\"GPU-a\"} 500.5\n"));
  CHECK(!has("rt_gpu_temperature_celsius{"));
  CHECK(has("rt_gpu_fault{node=\"n1\",gpu=\"GPU-a\"} 0\n"));
  CHECK(has("rt_gpu_fault{node=\"n1\",gpu=\"GPU-b\"} 1\n"));
}

}  // namespace rt
