// The file of a cluster on EC2 as the configuration of its head.
#include <catch2/catch.hpp>

#include "cli/cloud/aws_file.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/aws_setup.h"
#include "common/run/files.h"

using namespace rt;

namespace {

absl::StatusOr<AwsFile> FileOf(const std::string& text) {
  RT_ASSIGN_OR_RETURN(const YamlDocument document, ParseYaml(text, "x.yaml"));
  RT_ASSIGN_OR_RETURN(const ClusterSpec spec, LoadCluster(document));
  return ReadAwsFile(spec);
}

// "line:column message" of what is wrong with a cluster's file; "" when nothing is.
std::string Fault(const std::string& text) {
  const absl::Status status = FileOf(text).status();
  if (status.ok()) return "";
  const Position position = PositionOf(status);
  CHECK(position.file == "x.yaml");
  return std::to_string(position.line) + ":" + std::to_string(position.column) + " " +
         MessageOf(status) + (HintOf(status).empty() ? "" : " (" + HintOf(status) + ")");
}

const std::string kArticle = ReadFile(RT_ARTICLE_FILE).value_or("");

constexpr char kNewForm[] = R"(cluster_name: demo
provider:
  type: aws
  region: us-west-2
  availability_zone: us-west-2b,us-west-2a
  security_group: {GroupName: mine, IpPermissions: [{IpProtocol: tcp, FromPort: 22, ToPort: 22}]}
head_node_type: head
available_node_types:
  head:
    node_config: {InstanceType: m5.large}
  gpu:
    resources: {CPU: 8, GPU: 1}
    labels: {tier: spot}
    spot: {fallback: on_demand, instance_types: [g5.xlarge, g6.xlarge]}
    max_price: 0.5
    node_config:
      InstanceType: g5.xlarge
      KeyName: mine
      SubnetIds: [subnet-1, subnet-2]
)";

}  // namespace

TEST_CASE("aws file: the article's cluster") {
  const auto file = FileOf(kArticle);
  REQUIRE(file.ok());
  CHECK(file->head.instance_types == std::vector<std::string>{"c4.2xlarge"});
  CHECK(file->provider.GetString("region") == "us-west-2");
  CHECK(file->provider.GetString("user") == "ubuntu");
  REQUIRE(file->provider.Find("pools")->object().size() == 1);
  CHECK(file->provider.Find("pools")->object()[0].first == "worker");
  const Json& worker = file->provider.Find("pools")->object()[0].second;
  CHECK(worker.Find("setup_commands")->Dump() == R"(["pip install ray numpy pandas"])");
  CHECK(ReadAwsSetup(file->provider).ok());
}

TEST_CASE("aws file: node types, and what they ask for") {
  const auto file = FileOf(kNewForm);
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  const Json* gpu = file->provider.Find("pools")->Find("gpu");
  REQUIRE(gpu != nullptr);
  CHECK(file->provider.Find("pools")->Find("head") == nullptr);
  const auto pool = ReadEc2Pool("gpu", *gpu, "");
  REQUIRE(pool.ok());
  CHECK(pool->resources == "cpu=8,gpu=1");
  CHECK(pool->labels == "tier=spot");
  CHECK(pool->instance_types == std::vector<std::string>{"g5.xlarge", "g6.xlarge"});
  CHECK(pool->is_spot);
  CHECK(pool->falls_back);
  CHECK(pool->max_price == "0.5");
  CHECK(pool->subnets == std::vector<std::string>{"subnet-1", "subnet-2"});
}

TEST_CASE("aws file: the setup commands of workers, whole and of a node type") {
  const auto file = FileOf(std::string(kNewForm) + R"(    worker_setup_commands: [echo gpu]
  cpu:
    node_config: {InstanceType: c5.large}
initialization_commands: [echo first]
setup_commands: [echo all]
head_setup_commands: [echo head]
worker_setup_commands: [echo worker]
)");
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  const Json& pools = *file->provider.Find("pools");
  CHECK(pools.Find("gpu")->Find("setup_commands")->Dump() ==
        R"(["echo first","echo all","echo gpu"])");
  CHECK(pools.Find("cpu")->Find("setup_commands")->Dump() ==
        R"(["echo first","echo all","echo worker"])");
  CHECK(ReadAwsSetup(file->provider).ok());
}

TEST_CASE("aws file: a mistake is named with its line and column") {
  auto edited = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  CHECK(Fault(kArticle).empty());
  const std::string worker = "worker_nodes: {\n    Instanc";
  CHECK(Fault(edited(kArticle, worker + "eType", worker + "Typ")).starts_with("11:"));
  CHECK(Fault(edited(kNewForm, "KeyName: mine", "KeyNam: mine")).find("KeyName") !=
        std::string::npos);
  CHECK(Fault(edited(kNewForm, "KeyName: mine", "KeyNam: mine")).starts_with("18:"));
  CHECK(Fault(edited(kNewForm, "max_price: 0.5", "max_price: -1")).starts_with("15:"));
  CHECK(Fault(edited(kNewForm, "fallback: on_demand", "fallback: maybe")).starts_with("14:"));
  CHECK(Fault(edited(kNewForm, "region: us-west-2", "region: 'us west'")).find("region") !=
        std::string::npos);
  CHECK(Fault(edited(kNewForm, "GroupName: mine", "GroupNam: mine")).starts_with("6:"));
  CHECK(Fault(edited(kNewForm, "InstanceType: g5.xlarge", "ImageId: ami-1")).find("InstanceType") !=
        std::string::npos);
  CHECK(Fault(edited(kNewForm, "{tier: spot}", "{tier: 'a,b'}")).starts_with("13:"));
}

TEST_CASE("aws setup: a head does not start with a configuration that can never work") {
  auto fault = [](Json provider) { return MessageOf(ReadAwsSetup(provider).status()); };
  Json good = FileOf(kNewForm)->provider;
  CHECK(fault(good).empty());
  good.Set("tags", Json::MakeObject({{"rt-machine", "1"}}));
  CHECK(fault(good).find("reserved") != std::string::npos);
  good.Set("tags", Json::MakeObject({{"team", "nlp"}}));
  good.Set("programs", Json::MakeObject({{"url", "https://x"}, {"sha256", "short"}}));
  CHECK(fault(good).find("SHA-256") != std::string::npos);
  good.Erase("programs");
  good.Set("password", "x");
  CHECK_FALSE(fault(good).empty());
  good.Erase("password");
  const auto setup = ReadAwsSetup(good);
  REQUIRE(setup.ok());
  CHECK_FALSE((*setup)->SharesAccount());
  CHECK_FALSE((*setup)->Start({{.name = "other"}}, {}).ok());
  CHECK_FALSE((*setup)->Start({{.name = "gpu"}}, {}).ok());
  CHECK((*setup)->Start({{.name = "gpu", .each = {.cpu = kUnit}}}, {}).ok());
}
