#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/run/files.h"
#include "common/yaml/cluster_spec.h"

using namespace rt;

namespace {
absl::StatusOr<ClusterSpec> LoadCloud(const std::string& text) {
  return LoadCluster(*ParseYaml(text, "c.yaml"));
}
const std::string kAws = "cluster_name: c\nprovider: {type: aws}\n";

// The listing of "Large-Scale Distributed Training with Ray Tune" (BAIR, 2020), byte for byte.
const std::string kArticle = ReadFile(RT_ARTICLE_FILE).value_or("");
}  // namespace

TEST_CASE("pools: the article's file has a head and up to two workers of its kinds") {
  auto spec = LoadCloud(kArticle);
  INFO(spec.status());
  REQUIRE(spec.ok());
  CHECK(spec->region == "us-west-2");
  REQUIRE(spec->pools.size() == 2);
  CHECK(spec->pools[0].is_head);
  CHECK(spec->pools[0].instance_type == "c4.2xlarge");
  CHECK(spec->pools[0].image == "ami-0b294f219d14e6a82");
  CHECK(spec->pools[0].max_workers == 0);
  CHECK(spec->pools[1].name == "worker");
  CHECK(spec->pools[1].min_workers == 0);
  CHECK(spec->pools[1].max_workers == 2);
  CHECK(!spec->pools[1].is_spot);
  CHECK(spec->setup.common == std::vector<std::string>{"pip install ray numpy pandas"});
  CHECK(spec->setup.file_mounts[0].second == "my_files/");
}

TEST_CASE("pools: min_workers of all node types fit within max_workers of the cluster") {
  const std::string types = R"(head_node_type: m
available_node_types:
  m: {node_config: {InstanceType: m5.large}, resources: {}}
  a: {node_config: {InstanceType: c5.large}, min_workers: 2, max_workers: 2}
  b: {node_config: {InstanceType: c5.large}, min_workers: 1, max_workers: 2}
)";
  CHECK(LoadCloud(kAws + "max_workers: 3\n" + types).ok());
  const absl::Status status = LoadCloud(kAws + "max_workers: 2\n" + types).status();
  CHECK(MessageOf(status) ==
        "max_workers 2 is below the min_workers of all node types together (3)");
}

TEST_CASE("pools: the new form has a pool per node type, the head's first") {
  auto spec = LoadCloud(kAws + R"(max_workers: 8
head_node_type: m
available_node_types:
  gpu:
    node_config:
      InstanceType: p3.2xlarge
      BlockDeviceMappings: [{DeviceName: /dev/sda1, Ebs: {VolumeSize: 100}}]
      InstanceMarketOptions: {MarketType: spot, SpotOptions: {MaxPrice: '1.50'}}
    resources: {CPU: 8, GPU: 1}
    labels: {rack: a}
    min_workers: 1
    max_workers: 4
    idle_timeout_s: 60
    spot: {fallback: on_demand, instance_types: [g4dn.xlarge]}
    worker_setup_commands: [nvidia-smi]
  m: {node_config: {InstanceType: m5.large}, resources: {}}
)");
  INFO(spec.status());
  REQUIRE(spec.ok());
  REQUIRE(spec->pools.size() == 2);
  CHECK(spec->pools[0].name == "m");
  CHECK(spec->pools[0].resources.empty());  // It has what it has.
  const NodePool& gpu = spec->pools[1];
  CHECK(gpu.resources == "cpu=8,gpu=1");
  CHECK(gpu.labels == "rack=a");
  CHECK(gpu.is_spot);
  CHECK(gpu.falls_back);
  CHECK(gpu.max_price == "1.50");
  CHECK(gpu.more_types == std::vector<std::string>{"g4dn.xlarge"});
  CHECK(gpu.node_config.Find("BlockDeviceMappings") != nullptr);
  CHECK(gpu.idle_timeout_s == 60);
  CHECK(gpu.worker_setup_commands == std::vector<std::string>{"nvidia-smi"});
  CHECK(!gpu.initialization_commands.has_value());
}

TEST_CASE("pools: a file that names no kind of machine gets Ray's, with spot workers") {
  auto spec = LoadCloud(kAws);
  REQUIRE(spec.ok());
  CHECK(spec->pools[0].instance_type == "m5.large");
  CHECK(!spec->pools[0].is_spot);
  CHECK(spec->pools[1].is_spot);
  CHECK(spec->region == "us-west-2");
}

TEST_CASE("pools: mistakes are named at their place") {
  const auto refuses = [](const std::string& text, int line, const std::string& hint) {
    auto spec = LoadCloud(kAws + text);
    INFO(spec.status());
    CHECK(absl::IsInvalidArgument(spec.status()));
    CHECK(PositionOf(spec.status()).line == line);
    CHECK(HintOf(spec.status()) == hint);
  };
  refuses("available_node_types: {w: {node_config: {InstanceType: x}}}\n", 3,
          "name the node type of the head: head_node_type: w");
  refuses("worker_nodes: {ImageId: ami-1}\n", 3, "node_config: {InstanceType: m5.large}");
  refuses("worker_nodes:\n  InstanceType: x\n  InstanceMarketOptions: {MarketType: sport}\n", 5,
          "MarketType: spot; without InstanceMarketOptions machines are on demand");
  refuses("worker_nodes:\n  InstanceType: x\n  InstanceMarketOptions: {MarketTyp: spot}\n", 5,
          "did you mean 'MarketType'?");
  refuses(
      "worker_nodes:\n  InstanceType: x\n"
      "  InstanceMarketOptions: {SpotOptions: {MaxPrice: cheap}}\n",
      5, "write it as in '0.35'");
  const std::string type =
      "head_node_type: h\navailable_node_types:\n  h:\n    node_config: "
      "{InstanceType: x}\n";
  refuses(type + "    spot: {fallback: on_deman}\n", 7, "did you mean 'on_demand'?");
  refuses(type + "    max_price: 1\n", 7, "add 'spot: {fallback: on_demand}' to the node type");
}
