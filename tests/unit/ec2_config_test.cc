#include <algorithm>
#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/aws_setup.h"
#include "common/provider/aws/ec2_provider.h"
#include "common/provider/aws/run_instance.h"
#include "common/provider/aws/run_parameters.h"
#include "common/yaml/yaml_json.h"

using namespace rt;

namespace {

std::string Value(const Ec2Parameters& parameters, const std::string& name) {
  for (const auto& [key, value] : parameters)
    if (key == name) return value;
  return "(absent)";
}

Json Yaml(const std::string& text) {
  const auto document = ParseYaml(text, "x.yaml");
  REQUIRE(document.ok());
  return document->value;
}

Ec2Pool PoolOf(const std::string& config, const std::string& more = "") {
  const auto pool =
      ReadEc2Pool("cpu", Yaml("node_config: " + config + "\n" + more), "available_node_types/cpu");
  INFO(pool.status().ToString());
  REQUIRE(pool.ok());
  return *pool;
}

Ec2Parameters Run(const Ec2Pool& pool, bool is_spot = false) {
  const auto parameters =
      ParametersOf({.pool = &pool,
                    .step = {pool.instance_types[0], {"subnet-9", "z", "vpc"}, is_spot},
                    .image = "",
                    .group = "sg-9",
                    .client_token = "token",
                    .user_data = "#!/bin/sh\n",
                    .tags = {{"Name", "ray-demo-worker"}, {"rt-machine", "7"}}});
  INFO(parameters.status().ToString());
  REQUIRE(parameters.ok());
  return *parameters;
}

}  // namespace

TEST_CASE("ec2 parameters: nested structures become dotted names") {
  const auto parameters = RunParametersOf(Yaml(R"(
InstanceType: m5.large
EbsOptimized: true
BlockDeviceMappings:
  - DeviceName: /dev/sda1
    Ebs: {VolumeSize: 140, VolumeType: gp3, Encrypted: false}
  - {DeviceName: /dev/sdb, VirtualName: ephemeral0}
IamInstanceProfile: {Arn: "arn:aws:iam::1:instance-profile/x"}
SecurityGroupIds: [sg-1, sg-2]
NetworkInterfaces:
  - DeviceIndex: 0
    AssociatePublicIpAddress: false
    Groups: [sg-3]
    Ipv6Addresses: [{Ipv6Address: "::1"}]
TagSpecifications:
  - {ResourceType: instance, Tags: [{Key: a, Value: b}, {Key: c, Value: "d=e&f"}]}
MetadataOptions: {HttpTokens: required}
Placement: null
)"),
                                          "node_config");
  REQUIRE(parameters.ok());
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"InstanceType", "m5.large"},
      {"EbsOptimized", "true"},
      {"BlockDeviceMapping.1.DeviceName", "/dev/sda1"},
      {"BlockDeviceMapping.1.Ebs.VolumeSize", "140"},
      {"BlockDeviceMapping.1.Ebs.VolumeType", "gp3"},
      {"BlockDeviceMapping.1.Ebs.Encrypted", "false"},
      {"BlockDeviceMapping.2.DeviceName", "/dev/sdb"},
      {"BlockDeviceMapping.2.VirtualName", "ephemeral0"},
      {"IamInstanceProfile.Arn", "arn:aws:iam::1:instance-profile/x"},
      {"SecurityGroupId.1", "sg-1"},
      {"SecurityGroupId.2", "sg-2"},
      {"NetworkInterface.1.DeviceIndex", "0"},
      {"NetworkInterface.1.AssociatePublicIpAddress", "false"},
      {"NetworkInterface.1.SecurityGroupId.1", "sg-3"},
      {"NetworkInterface.1.Ipv6Addresses.1.Ipv6Address", "::1"},
      {"TagSpecification.1.ResourceType", "instance"},
      {"TagSpecification.1.Tag.1.Key", "a"},
      {"TagSpecification.1.Tag.1.Value", "b"},
      {"TagSpecification.1.Tag.2.Key", "c"},
      {"TagSpecification.1.Tag.2.Value", "d=e&f"},
      {"MetadataOptions.HttpTokens", "required"}};
  CHECK(*parameters == wanted);
}

TEST_CASE("ec2 parameters: a key that this release does not know is passed on, a slip is not") {
  CHECK(Value(*RunParametersOf(Yaml("QuantumOptions: {Qubits: 3}"), "c"),
              "QuantumOptions.Qubits") == "3");
  CHECK(MessageOf(RunParametersOf(Yaml("InstanceTyp: m5.large"), "c").status()) ==
        "unknown key 'InstanceTyp'");
  CHECK(HintOf(RunParametersOf(Yaml("MetadataOptions: {HttpToken: x}"), "c").status())
            .find("HttpTokens") != std::string::npos);
  for (const char* odd : {"'a.b': 1", "'a b': 1", "'': 1", "'x&Action': 1"})
    CHECK_FALSE(RunParametersOf(Yaml(odd), "c").ok());
  for (const char* own : {"UserData: x", "MinCount: 3", "ClientToken: x"})
    CHECK(MessageOf(RunParametersOf(Yaml(own), "c").status()).find("set by rt") !=
          std::string::npos);
}

TEST_CASE("ec2 run: our tags, token and market are added to what the file says") {
  const Ec2Pool pool = PoolOf(
      "{InstanceType: m5.large, ImageId: ami-1, InstanceMarketOptions: {MarketType: spot, "
      "SpotOptions: {MaxPrice: '0.3', InstanceInterruptionBehavior: terminate}}, "
      "TagSpecifications: [{ResourceType: instance, Tags: [{Key: team, Value: nlp}, {Key: Name, "
      "Value: theirs}, {Key: rt-machine, Value: '1'}]}]}");
  const Ec2Parameters spot = Run(pool, true);
  CHECK(Value(spot, "InstanceMarketOptions.MarketType") == "spot");
  CHECK(Value(spot, "InstanceMarketOptions.SpotOptions.MaxPrice") == "0.3");
  CHECK(Value(spot, "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior") ==
        "terminate");
  CHECK(Value(Run(pool), "InstanceMarketOptions.MarketType") == "(absent)");
  std::map<std::string, std::string> tags;
  for (int i = 1; i <= 3; ++i) {
    const std::string tag = "TagSpecification.1.Tag." + std::to_string(i) + ".";
    tags[Value(spot, tag + "Key")] = Value(spot, tag + "Value");
  }
  CHECK(tags == std::map<std::string, std::string>{
                    {"Name", "theirs"}, {"rt-machine", "7"}, {"team", "nlp"}});
  CHECK(Value(spot, "TagSpecification.2.ResourceType") == "volume");
  CHECK(Value(spot, "SubnetId") == "subnet-9");
  CHECK(Value(spot, "SecurityGroupId.1") == "sg-9");
  CHECK(Value(spot, "MinCount") == "1");
  CHECK(Value(spot, "MaxCount") == "1");
  CHECK(Value(spot, "ClientToken") == "token");
  CHECK(Value(spot, "InstanceInitiatedShutdownBehavior") == "terminate");
  CHECK(Value(spot, "UserData") == "IyEvYmluL3NoCg==");
}

TEST_CASE("ec2 run: with interfaces of the file, subnet and groups are in them") {
  const Ec2Parameters run = Run(PoolOf(
      "{InstanceType: m5.large, NetworkInterfaces: [{DeviceIndex: 0, AssociatePublicIpAddress: "
      "true}]}"));
  CHECK(Value(run, "NetworkInterface.1.SubnetId") == "subnet-9");
  CHECK(Value(run, "NetworkInterface.1.SecurityGroupId.1") == "sg-9");
  CHECK(Value(run, "SubnetId") == "(absent)");
  CHECK(Value(run, "SecurityGroupId.1") == "(absent)");
  CHECK(Value(Run(PoolOf("{InstanceType: m5.large, SecurityGroupIds: [sg-1]}")),
              "SecurityGroupId.1") == "sg-1");
}

TEST_CASE("ec2 ladder: every zone, then the next type, and on demand at last") {
  const Ec2Pool pool =
      PoolOf("{InstanceType: a}", "spot: {fallback: on_demand, instance_types: [b, a]}");
  const std::vector<Ec2Subnet> subnets = {{"s1", "za", "v"}, {"s2", "zb", "v"}};
  std::string steps;
  for (const LadderStep& step : LadderOf(pool, subnets)) steps += Describe(step) + "\n";
  CHECK(steps ==
        "spot a in za\nspot a in zb\nspot b in za\nspot b in zb\n"
        "a in za\na in zb\nb in za\nb in zb\n");
  CHECK(LadderOf(PoolOf("{InstanceType: a}"), subnets).size() == 2);
  std::set<std::string> tokens;
  for (const LadderStep& step : LadderOf(pool, subnets))
    for (uint64_t machine : {1, 2}) tokens.insert(Ec2ClientToken("c1", machine, step));
  CHECK(tokens.size() == 16);
  CHECK(tokens.begin()->size() == 64);
}
