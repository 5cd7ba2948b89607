// Ec2Provider against a service that ec2.py starts: RT_TEST_EC2 is its endpoint, and POST /faults
// tells it what goes wrong. Credentials come from the environment, as for the head.
#include <cstdlib>
#include <numeric>
#include <set>

#include "common/aws/credential_chain.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/ec2_cluster.h"
#include "common/provider/aws/ec2_instances.h"
#include "common/provider/aws/ec2_provider.h"
#include "common/provider/aws/head_access.h"
#include "common/provider/aws/ssh_rule.h"
#include "common/run/clock.h"
#include "common/run/random.h"
#include "tests/contract/node_provider_suite.h"

namespace rt::contract {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  REQUIRE(value != nullptr);
  return value;
}

void SetFaults(const std::string& json) {
  HttpClient http;
  const auto answer =
      http.Do({.method = "POST", .url = Variable("RT_TEST_EC2") + "/faults", .body = json});
  REQUIRE(answer.ok());
  REQUIRE(answer->status == 200);
}

AwsEndpoint Endpoint() { return {"us-west-2", Variable("RT_TEST_EC2")}; }

// A provider of a cluster of its own. What it made is removed at the end.
struct Ec2 {
  Ec2ProviderOptions options;
  std::unique_ptr<NodeProvider> provider;
  std::atomic<int> tokens = 0;
  bool keeps = false;

  explicit Ec2(const std::string& faults = R"({"capacity": {"*": 4}})",
               const std::string& more_config = "", const std::string& cluster = RandomHex(6)) {
    SetFaults(faults);
    const Json config = *Json::Parse(R"({"InstanceType": "c5.large", "ImageId": ")" +
                                     Variable("RT_TEST_IMAGE") + "\"" + more_config + "}");
    options.context.cluster_id = cluster;
    options.context.head_address_elsewhere = "10.0.0.1:6379";
    options.context.make_token = [this](uint64_t machine, const std::string&) {
      ++tokens;
      return "token-of-" + std::to_string(machine) + (keeps ? "" : RandomHex(4));
    };
    options.cluster_name = "demo";
    options.pools = {{.name = "cpu", .node_config = config, .instance_types = {"c5.large"}}};
    options.network.group_name = Ec2GroupName("demo");
    options.network.open_ports = {6379};
    options.network.tags = {{"ray-cluster-name", "demo"}};
    options.environment = ProcessEnvironment();
    options.endpoint = Endpoint();
    options.client.sleep = [](Millis) {};
    Restart();
  }
  ~Ec2() {
    if (keeps) return;
    SetFaults("{}");
    Restart();
    provider->EndAll();
  }
  void Restart() { provider = MakeEc2Provider(options); }  // As a head that was killed.

  std::vector<Ec2Instance> Instances() {
    HttpClient http;
    CredentialChain chain(http, options.environment);
    Ec2Client client(http, chain, Endpoint(), options.client);
    auto all = InstancesOfCluster(client, options.context.cluster_id, {});
    REQUIRE(all.ok());
    std::erase_if(*all, [](const Ec2Instance& one) { return !one.is_there(); });
    return *all;
  }
  // A Create that is repeated as the reconciler does, until it is settled.
  absl::StatusOr<std::vector<MadeMachine>> Insist(const std::vector<uint64_t>& numbers) {
    for (int i = 0; i < 50; ++i) {
      auto made = provider->Create(Wish(numbers));
      if (made.ok() || ProviderErrorOf(made.status()) != ProviderError::kRetryLater) return made;
    }
    return absl::DeadlineExceededError("a Create is never settled");
  }
};

// Waits until `check` holds; lists lag.
void Await(const std::function<bool()>& check) {
  const Millis until = SteadyClock() + 20'000;
  bool holds = check();
  for (; !holds && SteadyClock() < until; holds = check()) SleepFor(20);
  CHECK(holds);
}

bool IsThere(Ec2& ec2, const std::string& id) {
  HttpClient http;
  CredentialChain chain(http, ec2.options.environment);
  Ec2Client client(http, chain, Endpoint(), ec2.options.client);
  const auto found = InstancesById(client, {id});
  return found.ok() && found->size() == 1 && found->front().is_there();
}

const std::function<void()> kAtOnce = [] {};

}  // namespace

TEST_CASE("node provider contract: EC2") {
  CreatedMachinesAreListed(*Ec2().provider, kAtOnce);
  ARepeatedCreateMakesNothing(*Ec2().provider, kAtOnce);
  TerminateRemovesAndMayBeRepeated(*Ec2().provider, kAtOnce);
  MoreThanThereIsCapacityForIsCutOff(*Ec2().provider, kAtOnce);
  EndAllLeavesNothing(*Ec2().provider, kAtOnce);
  Ec2 ec2;
  const std::string foreign = Variable("RT_TEST_FOREIGN");
  WhatIsNotOursIsNotTouched(*ec2.provider, foreign, [&] { return IsThere(ec2, foreign); });
}

TEST_CASE("node provider contract: EC2 behind throttling, errors and lost answers") {
  // Fewer in a row than a call is repeated.
  const char* faults = R"({"next": {"RunInstances": ["lost", "throttle", "", "cut", "internal"],
      "DescribeInstances": ["internal", "", "throttle", "", "cut", "", "lost"],
      "TerminateInstances": ["lost", "throttle", "cut"]}})";
  const auto run = [&](auto rule) {
    Ec2 ec2(faults);
    rule(*ec2.provider, kAtOnce);
  };
  run(CreatedMachinesAreListed);
  run(ARepeatedCreateMakesNothing);
  run(TerminateRemovesAndMayBeRepeated);
  run(EndAllLeavesNothing);
}

TEST_CASE("node provider contract: EC2 with lists that lag") {
  Ec2 ec2(R"({"lag_s": 1.0})");
  const auto made = ec2.provider->Create(Wish({1, 2}));
  REQUIRE(made.ok());
  CHECK(*ec2.provider->Create(Wish({1, 2})) == *made);
  CHECK(ec2.provider->Terminate({made->front().id}).ok());  // No list shows it yet.
  // For a moment a list may show the first one alone, which was made before the second one.
  Await([&] {
    const auto list = ec2.provider->List();
    return list.ok() && list->size() == 1 && list->front().number == 2;
  });
  ec2.provider->EndAll();
  CHECK(ec2.provider->List()->empty());
}

TEST_CASE("ec2: an answer that is lost after the instance was made makes no second one") {
  for (const char* fault : {"lost", "cut", "slow"}) {
    INFO(fault);
    const std::vector<std::string> five(5, "\"" + std::string(fault) + "\"");
    Ec2 ec2(R"({"lag_s": 0.5, "next": {"RunInstances": [)" + Join(five, ",") + "]}}");
    ec2.options.client.timeout = 500;
    ec2.Restart();
    // More often than one call repeats it by itself.
    const absl::Status unclear = ec2.provider->Create(Wish({1})).status();
    CHECK(ProviderErrorOf(unclear) == ProviderError::kRetryLater);
    const auto made = ec2.Insist({1});
    REQUIRE(made.ok());
    Await([&] { return ec2.Instances().size() == 1; });
    CHECK(ec2.Instances().front().id == made->front().id);
    CHECK(ec2.tokens == 1);
  }
}

TEST_CASE("ec2: a head that lost its memory between RunInstances and its answer makes no second") {
  Ec2 ec2(R"({"lag_s": 1.0, "next": {"RunInstances": ["lost", "lost", "lost", "lost", "lost"]}})");
  CHECK(ProviderErrorOf(ec2.provider->Create(Wish({1})).status()) == ProviderError::kRetryLater);
  ec2.Restart();  // Its join token, and so the user data, will be another one.
  const auto made = ec2.provider->Create(Wish({1}));
  // Either the list shows the machine, or the token is known and nothing is made.
  CHECK((made.ok() || ProviderErrorOf(made.status()) == ProviderError::kRetryLater));
  Await([&] { return ec2.Insist({1}).ok(); });
  CHECK(ec2.Instances().size() == 1);
}

TEST_CASE("ec2: two instances of one number are made one by the next list") {
  Ec2 ec2(R"({"lag_s": 30.0, "capacity": {"us-west-2a/c5.large/on-demand": 0}})");
  ec2.options.network.zones = {"us-west-2a", "us-west-2b"};
  ec2.Restart();
  REQUIRE(ec2.provider->Create(Wish({1})).ok());  // In the second zone.
  SetFaults(R"({"lag_s": 30.0})");
  ec2.Restart();
  const auto second = ec2.provider->Create(Wish({1}));  // In the first, which has capacity now.
  REQUIRE(second.ok());
  SetFaults("{}");
  CHECK(ec2.Instances().size() == 2);
  const auto listed = ec2.provider->List();
  REQUIRE(listed->size() == 1);
  CHECK(ec2.Instances().size() == 1);
}

TEST_CASE("ec2: the ladder goes by zone, by type and to on-demand") {
  Ec2 ec2(R"({"capacity": {"us-west-2b/c5.large/spot": 1, "us-west-2a/c5.large/spot": 1,
             "us-west-2b/m5.large/spot": 0, "us-west-2a/m5.large/spot": 1}})");
  Ec2Pool& pool = ec2.options.pools[0];
  pool.is_spot = pool.falls_back = true;
  pool.instance_types = {"c5.large", "m5.large"};
  ec2.options.network.zones = {"us-west-2b", "us-west-2a"};
  ec2.Restart();
  for (uint64_t number : {1, 2, 3, 4}) REQUIRE(ec2.provider->Create(Wish({number})).ok());
  CHECK(ec2.provider->List()->size() == 4);
  SetFaults(R"({"capacity": {"*": 4}})");
  CHECK(ProviderErrorOf(ec2.provider->Create(Wish({5})).status()) == ProviderError::kCapacity);
}

TEST_CASE("ec2: definite errors have their class, and leave nothing") {
  const std::pair<const char*, ProviderError> cases[] = {{"capacity", ProviderError::kCapacity},
                                                         {"quota", ProviderError::kQuota},
                                                         {"auth", ProviderError::kBadConfiguration},
                                                         {"bad", ProviderError::kBadConfiguration}};
  for (const auto& [fault, wanted] : cases) {
    INFO(fault);
    std::vector<std::string> all(20, "\"" + std::string(fault) + "\"");
    Ec2 ec2(R"({"next": {"RunInstances": [)" + Join(all, ",") + "]}}");
    const absl::Status status = ec2.provider->Create(Wish({1, 2})).status();
    CHECK(ProviderErrorOf(status) == wanted);
    // Of many machines at once, some find that the others have met the end of the ladder.
    SetFaults(R"({"next": {"RunInstances": [)" + Join(std::vector<std::string>(400, all[0]), ",") +
              "]}}");
    std::vector<uint64_t> many(40);
    std::iota(many.begin(), many.end(), 3);
    CHECK(ProviderErrorOf(ec2.provider->Create(Wish(many)).status()) == wanted);
    CHECK(ec2.Instances().empty());
  }
  Ec2 ec2;
  CHECK(ProviderErrorOf(ec2.provider->Create({.pool = "other"}).status()) ==
        ProviderError::kBadConfiguration);
}

TEST_CASE("ec2: some machines of a request fail, the others count") {
  Ec2 ec2(R"({"next": {"RunInstances": ["", "bad", ""]}})");
  const auto made = ec2.provider->Create(Wish({1, 2, 3}));
  REQUIRE(made.ok());
  CHECK(made->size() == 2);
}

TEST_CASE("ec2: a machine that vanished is in no list, and its removal succeeds") {
  Ec2 ec2;
  const auto made = ec2.provider->Create(Wish({1, 2}));
  REQUIRE(made.ok());
  HttpClient http;
  CredentialChain chain(http, ec2.options.environment);
  Ec2Client client(http, chain, Endpoint(), ec2.options.client);
  REQUIRE(TerminateInstances(client, {made->front().id, "i-0123456789abcdef0"}).ok());
  CHECK(ec2.provider->List()->size() == 1);
  CHECK(ec2.provider->Terminate({made->front().id, "i-0123456789abcdef0"}).ok());
}

TEST_CASE("ec2: forty machines of one request are made, each once") {
  Ec2 ec2(R"({"noise": 5})");
  std::vector<uint64_t> numbers;
  for (uint64_t number = 1; number <= 40; ++number) numbers.push_back(number);
  const auto made = ec2.Insist(numbers);
  REQUIRE(made.ok());
  std::set<std::string> ids;
  for (const MadeMachine& machine : *made) ids.insert(machine.id);
  CHECK(ids.size() == 40);
  CHECK(ec2.Instances().size() == 40);
}

TEST_CASE("ec2 cluster: a head's machine is made once, and goes with all that was made for it") {
  Ec2 workers("{}", "", RandomHex(8));
  const std::string id = workers.options.context.cluster_id, name = "c-" + id;
  const Json provider = Json::MakeObject({{"type", "aws"},
                                          {"region", "us-west-2"},
                                          {"endpoint", Endpoint().url},
                                          {"cluster_name", name}});
  Ec2Pool pool = workers.options.pools[0];
  pool.name = "head";
  pool.node_config.Set("KeyName", HeadKeyName(id));
  pool.node_config.Set("IamInstanceProfile", Json::MakeObject({{"Name", HeadRoleName(id)}}));
  SetFaults(R"({"next": {"ImportKeyPair": ["lost"], "CreateRole": ["lost"],
                "AddRoleToInstanceProfile": ["lost"], "CreateSecurityGroup": ["lost"],
                "RunInstances": ["lost", "throttle"], "TerminateInstances": ["lost"],
                "DeleteSecurityGroup": ["lost"], "DeleteKeyPair": ["lost"],
                "DeleteRole": ["lost"]}})");
  std::string machine;
  for (int client = 0; client < 2; ++client) {
    const auto cluster = Ec2Cluster::Open(provider);
    REQUIRE(cluster.ok());
    const absl::Status key = (*cluster)->ImportKey(
        id, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIQF1DXhLUX+or2vpf2oe+T/LAc0gEeyfPPGEiW3VEcH x");
    CHECK(key == absl::OkStatus());
    CHECK((*cluster)->MakeRole(id, false) == absl::OkStatus());
    const auto made = (*cluster)->CreateHead(id, pool);
    INFO(made.status().ToString());
    REQUIRE(made.ok());
    CHECK((machine.empty() || machine == *made));
    machine = *made;
  }
  const auto cluster = Ec2Cluster::Open(provider);
  const auto heads = (*cluster)->Heads();
  REQUIRE(heads.ok());
  REQUIRE(heads->size() == 1);
  CHECK(heads->front().id == machine);
  CHECK(heads->front().cluster_id == id);
  CHECK(!heads->front().private_address.empty());
  // Neither side takes the other's machines for its own.
  REQUIRE(workers.Insist({1}).ok());
  CHECK(workers.provider->List()->size() == 1);
  CHECK(ProviderErrorOf(workers.provider->Terminate({machine})) == ProviderError::kNotOurs);
  CHECK(workers.Instances().size() == 2);
  for (int times = 0; times < 2; ++times)
    CHECK((*cluster)->Remove({.cluster_id = id}) == std::vector<std::string>());
  CHECK(workers.Instances().empty());
  CHECK((*cluster)->Heads()->empty());
}

// From where TCP port 22 of the group can be reached, in order.
std::vector<std::string> SshFrom(Ec2Client& client, const std::string& group_name) {
  std::vector<std::string> from;
  Ec2Parameters parameters;
  AddEc2Filter(parameters, "group-name", {group_name});
  const auto groups = client.Pages("DescribeSecurityGroups", "securityGroupInfo", parameters);
  REQUIRE(groups.ok());
  REQUIRE(groups->size() == 1);
  for (const XmlNode& rule : groups->front().Items("ipPermissions"))
    if (rule.Text("fromPort") == "22")
      for (const XmlNode& range : rule.Items("ipRanges")) from.push_back(range.Text("cidrIp"));
  std::sort(from.begin(), from.end());
  return from;
}

bool IsSshOpen(Ec2Client& client, const std::string& group_name) {
  return SshFrom(client, group_name) == std::vector<std::string>{kEverywhere};
}

TEST_CASE("ec2: ssh is open to the address of the client once that is known") {
  const std::string id = RandomHex(8);
  HttpClient http;
  CredentialChain chain(http, ProcessEnvironment());
  Ec2Client client(http, chain, Endpoint());
  const Ec2NetworkSpec network{.group_name = "ssh-" + id, .tags = {{kEc2ClusterTag, id}}};
  const auto subnets = FindSubnets(client, {.name = "cpu"}, {});
  REQUIRE(subnets.ok());
  REQUIRE(EnsureSecurityGroup(client, subnets->front().vpc, network).ok());
  const auto from = [&] { return SshFrom(client, network.group_name); };
  using Addresses = std::vector<std::string>;
  const Millis now = 1'800'000'000'000;
  CHECK(OpenSshPort(client, network, kEverywhere, now) == absl::OkStatus());
  CHECK(OpenSshPort(client, network, "192.0.2.1/32", now) == absl::OkStatus());
  CHECK(from() == Addresses{kEverywhere, "192.0.2.1/32"});
  CHECK(CloseSshPort(client, network, kEverywhere) == absl::OkStatus());
  CHECK(CloseSshPort(client, network, kEverywhere) == absl::OkStatus());
  CHECK(from() == Addresses{"192.0.2.1/32"});
  // Each rule has a time of its own.
  CHECK(OpenSshPort(client, network, "192.0.2.2/32", now + 5'000) == absl::OkStatus());
  CHECK(CloseExpiredSsh(client, id, now + 1'000) == absl::OkStatus());
  CHECK(from() == Addresses{"192.0.2.2/32"});
  CHECK(CloseSshPort(client, network) == absl::OkStatus());
  CHECK(from().empty());
  CHECK(RemoveSecurityGroups(client, id) == absl::OkStatus());
}

TEST_CASE("ec2: the head closes the port for ssh once the time of a killed client is over") {
  const std::string id = RandomHex(8);
  HttpClient http;
  CredentialChain chain(http, ProcessEnvironment());
  Ec2Client client(http, chain, Endpoint());
  Ec2NetworkSpec network{.group_name = "ssh-" + id,
                         .tags = {{kEc2ClusterTag, id}, {"ray-cluster-name", "demo"}}};
  const auto subnets = FindSubnets(client, {.name = "cpu"}, {});
  REQUIRE(subnets.ok());
  REQUIRE(EnsureSecurityGroup(client, subnets->front().vpc, network).ok());
  const Millis now = 1'800'000'000'000;
  CHECK(OpenSshPort(client, network, kEverywhere, now) == absl::OkStatus());
  CHECK(IsSshOpen(client, network.group_name));
  CHECK(CloseExpiredSsh(client, id, now) == absl::OkStatus());
  CHECK(IsSshOpen(client, network.group_name));
  CHECK(OpenSshPort(client, network, kEverywhere, now + 60'000) == absl::OkStatus());  // Renewed.
  CHECK(OpenSshPort(client, network, kEverywhere, now + 30'000) ==
        absl::OkStatus());  // A clock that is slow.
  CHECK(CloseExpiredSsh(client, id, now + 59'000) == absl::OkStatus());
  CHECK(IsSshOpen(client, network.group_name));
  CHECK(CloseExpiredSsh(client, "another", now + 61'000) == absl::OkStatus());
  CHECK(IsSshOpen(client, network.group_name));
  for (int times = 0; times < 2; ++times)
    CHECK(CloseExpiredSsh(client, id, now + 61'000) == absl::OkStatus());
  CHECK(!IsSshOpen(client, network.group_name));
  // What the file opens is not closed.
  network.ingress = *Json::Parse(R"([{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22,
                                      "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}])");
  REQUIRE(EnsureSecurityGroup(client, subnets->front().vpc, network).ok());
  CHECK(OpenSshPort(client, network, kEverywhere, now) == absl::OkStatus());
  CHECK(CloseExpiredSsh(client, id, now + 1) == absl::OkStatus());
  CHECK(CloseSshPort(client, network) == absl::OkStatus());
  CHECK(IsSshOpen(client, network.group_name));
  CHECK(RemoveSecurityGroups(client, id) == absl::OkStatus());
}

TEST_CASE("ec2: what is asked for (read with boto3 by ec2.py)") {
  Ec2 ec2("{}", "", "read-back");
  ec2.keeps = true;
  ec2.options.pools[0].is_spot = true;
  ec2.options.pools[0].max_price = "0.05";
  ec2.options.pools[0].resources = "cpu=2";
  ec2.options.network.zones = {"us-west-2b"};
  ec2.options.tags = {{"team", "a=b&c"}};
  ec2.options.user = "ubuntu";
  ec2.Restart();
  const auto made = ec2.provider->Create(Wish({7}));
  INFO(made.status().ToString());
  REQUIRE(made.ok());
}

}  // namespace rt::contract
