#include <catch2/catch.hpp>

#include "common/yaml/cluster_spec.h"

using namespace rt;

namespace {
absl::StatusOr<ClusterSpec> LoadLab(const std::string& text) {
  return LoadCluster(*ParseYaml("cluster_name: lab\n" + text, "c.yaml"));
}
std::vector<std::string> NamesOf(const ClusterSpec& spec) {
  std::vector<std::string> names;
  for (const HostSpec& host : spec.hosts.hosts) names.push_back(host.name);
  return names;
}
}  // namespace

TEST_CASE("hosts: Ray's addresses mean hosts, with the defaults of auth") {
  auto spec = LoadLab(
      "auth: {ssh_user: me, ssh_private_key: ~/.ssh/lab, ssh_proxy_command: ssh -W %h:%p gate}\n"
      "provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2, gpu3.lan]}\n");
  INFO(spec.status());
  REQUIRE(spec.ok());
  CHECK(spec->provider_type == "ssh");
  CHECK(NamesOf(*spec) == std::vector<std::string>{"10.0.0.1", "10.0.0.2", "gpu3.lan"});
  CHECK(spec->hosts.hosts[2].user == "me");
  CHECK(spec->hosts.hosts[2].key == "~/.ssh/lab");
  CHECK(spec->hosts.proxy_command == "ssh -W %h:%p gate");
  CHECK(spec->min_workers == 2);
  CHECK(spec->max_workers == 2);
}

TEST_CASE("hosts: an inventory has its own users, ports, keys, resources and labels") {
  auto spec = LoadLab(
      "auth: {ssh_user: me}\nprovider:\n  type: ssh\n  head: b\n  directory: /scratch/rt\n"
      "  port: 6379\n  hosts:\n    - a.lan\n"
      "    - {name: b, host: 127.0.0.1, port: 2201, user: you, key: k, resources: {GPU: 2},\n"
      "       labels: {rack: r1, zone: 7}}\n    - {host: '127.0.0.1', port: 2202}\n");
  INFO(spec.status());
  REQUIRE(spec.ok());
  CHECK(NamesOf(*spec) == std::vector<std::string>{"b", "a.lan", "127.0.0.1-2202"});
  const HostSpec& head = spec->hosts.hosts[0];
  CHECK(head.user == "you");
  CHECK(head.port == 2201);
  CHECK(head.key == "k");
  CHECK(head.resources == "gpu=2");  // Its cpus are those that it has.
  CHECK(head.labels == "rack=r1,zone=7");
  CHECK(spec->hosts.hosts[1].user == "me");
  CHECK(spec->hosts.hosts[1].resources.empty());
  CHECK(spec->hosts.directory == "/scratch/rt");
  CHECK(spec->hosts.head_port == 6379);
}

TEST_CASE("hosts: max_workers bounds them beside the head's") {
  const std::string hosts = "provider: {type: ssh, hosts: [a, b, c]}\n";
  CHECK(NamesOf(*LoadLab(hosts + "max_workers: 1\n")) == std::vector<std::string>{"a", "b"});
  CHECK(NamesOf(*LoadLab(hosts + "max_workers: 9\n")).size() == 3);
  CHECK(LoadLab(hosts + "min_workers: 1\n")->min_workers == 1);
}

TEST_CASE("hosts: nothing that ssh would take for an option, and no line break, comes through") {
  const auto refuses = [](const std::string& provider, int column) {
    auto spec = LoadLab("provider: " + provider + "\n");
    CHECK(absl::IsInvalidArgument(spec.status()));
    CHECK(PositionOf(spec.status()).line == 2);
    CHECK(PositionOf(spec.status()).column == column);
  };
  refuses("{type: ssh, hosts: ['-oProxyCommand=x']}", 31);
  refuses("{type: ssh, hosts: [{host: 'a b'}]}", 38);
  refuses("{type: ssh, hosts: [{host: a, user: '-x'}]}", 47);
  refuses("{type: ssh, hosts: [{host: a, key: \"a\\nb\"}]}", 46);
  refuses("{type: ssh, hosts: [{host: a, port: 70000}]}", 47);
  refuses("{type: ssh, hosts: [{host: a, prot: 22}]}", 41);
  refuses("{type: ssh, hosts: [a, a]}", 11);
  refuses("{type: ssh, hosts: [a], head: b}", 41);
  refuses("{type: local, worker_ips: [a]}", 11);
}

TEST_CASE("hosts: commands run in Ray's order, and paths of file_mounts are whole") {
  auto spec = LoadLab(
      "provider: {type: ssh, hosts: [a]}\ninitialization_commands: [i]\nsetup_commands: [c]\n"
      "head_setup_commands: [h]\nworker_setup_commands: [w]\n"
      "file_mounts: {'/home/me/files': 'my_files/'}\n");
  INFO(spec.status());
  REQUIRE(spec.ok());
  CHECK(spec->setup.CommandsOf(true) == std::vector<std::string>{"i", "c", "h"});
  CHECK(spec->setup.CommandsOf(false) == std::vector<std::string>{"i", "c", "w"});
  CHECK(spec->setup.file_mounts[0].second == "my_files/");
  CHECK(!LoadLab("provider: {type: ssh, hosts: [a]}\nfile_mounts: {files: x}\n").ok());
  CHECK(!LoadLab("provider: {type: ssh, hosts: [a]}\nsetup_commands: pip install x\n").ok());
}
