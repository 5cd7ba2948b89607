#include <algorithm>
#include <catch2/catch.hpp>

#include "cli/cloud/cloud_file.h"
#include "cli/hosts/file_mount.h"
#include "cli/hosts/host_file.h"
#include "cli/hosts/ssh_command.h"
#include "common/run/files.h"
#include "common/run/subprocess.h"

using namespace rt;

namespace {
bool Has(const std::vector<std::string>& argv, const std::string& word) {
  return std::find(argv.begin(), argv.end(), word) != argv.end();
}
}  // namespace

TEST_CASE("hosts: a quoted word is one word of a shell, whatever it holds") {
  for (const std::string word : {"", "a b", "it's", "$(id)", "`id`; \\ \"x\" *", "-n", "a\nb"}) {
    auto shown = RunProgram({.argv = {"sh", "-c", "printf %s " + ShellQuote(word)}}, "", 10'000);
    REQUIRE(shown.ok());
    CHECK(shown->output == word);
  }
}

TEST_CASE("hosts: ssh gets the host after --, and pins keys in our file") {
  const HostSpec host{.name = "b", .address = "gpu1", .port = 2222, .user = "me", .key = "/k 1"};
  const auto argv = SshArgv(host, {.known_hosts = "/h/known_hosts", .digest = "abc"});
  CHECK(argv[0] == "ssh");
  CHECK(Has(argv, "BatchMode=yes"));
  CHECK(Has(argv, "StrictHostKeyChecking=accept-new"));
  CHECK(Has(argv, "IdentityFile=\"/k 1\""));
  CHECK(argv[argv.size() - 3] == "--");
  CHECK(argv[argv.size() - 2] == "gpu1");
  // Login shells other than POSIX ones pass it on: one line, quoted once.
  const std::string command = argv.back();
  CHECK(command.starts_with("exec sh -c '"));
  CHECK(std::count(command.begin(), command.end(), '\n') == 0);
  CHECK(std::count(command.begin(), command.end(), '!') == 0);
}

TEST_CASE("hosts: a cloud's machine is pinned by its cluster, not by its address") {
  const HostSpec host{.name = "head", .address = "54.1.2.3"};
  const auto argv = SshArgv(host, {.known_hosts = "/c/known_hosts", .pinned_as = "rt-ab"});
  CHECK(Has(argv, "HostKeyAlias=rt-ab"));
  CHECK(Has(argv, "UserKnownHostsFile=\"/c/known_hosts\""));
  CHECK_FALSE(Has(SshArgv(host, {.known_hosts = "/h"}), "HostKeyAlias="));
}

TEST_CASE("cloud: what is noted of a cluster is read back") {
  auto directory = MakeTempDirectory("/tmp/rt-cloud-unit-");
  REQUIRE(directory.ok());
  CHECK(absl::IsNotFound(ReadCloudFile(*directory).status()));
  const Json provider = Json::MakeObject({{"type", "aws"}, {"region", "us-west-2"}});
  REQUIRE(WriteCloudFile(*directory, {.provider = provider,
                                      .cluster_id = "ab",
                                      .instance = "i-1",
                                      .asked_at = 7,
                                      .has_role = true,
                                      .made_here = true})
              .ok());
  const auto read = ReadCloudFile(*directory);
  REQUIRE(read.ok());
  CHECK(read->provider.Dump() == provider.Dump());
  CHECK(read->cluster_id == "ab");
  CHECK(read->instance == "i-1");
  CHECK(read->asked_at == 7);
  CHECK(read->has_role);
  CHECK(read->made_here);
  REQUIRE(WriteFileAtomic(CloudFile(*directory), "{}").ok());
  CHECK(absl::IsDataLoss(ReadCloudFile(*directory).status()));
  REQUIRE(RemoveTree(*directory).ok());
}

TEST_CASE("hosts: of a mount only the files that changed travel") {
  auto directory = MakeTempDirectory("/tmp/rt-mount-unit-");
  REQUIRE(directory.ok());
  const std::string here = *directory + "/here", there = *directory + "/there";
  const std::string record = *directory + "/records/mount";
  REQUIRE(EnsureDirectory(here + "/sub").ok());
  REQUIRE(WriteFileAtomic(here + "/a b", "1").ok());
  REQUIRE(WriteFileAtomic(here + "/sub/c", "2").ok());
  const auto send = [&]() -> std::vector<std::string> {
    auto mount = FileMount::Read(there, here);
    REQUIRE(mount.ok());
    std::vector<std::string> missing = MissingFiles(mount->Listing(), record);
    std::sort(missing.begin(), missing.end());
    const auto bytes = missing.empty() ? absl::StatusOr<std::string>("") : mount->Pack(missing);
    REQUIRE(bytes.ok());
    REQUIRE(TakeFiles(mount->Listing(), *bytes, record).ok());
    return missing;
  };
  CHECK(send() == std::vector<std::string>{"a b", "sub/c"});
  CHECK(*ReadFile(there + "/sub/c") == "2");
  CHECK(send().empty());
  REQUIRE(WriteFileAtomic(here + "/sub/c", "3").ok());
  CHECK(send() == std::vector<std::string>{"sub/c"});
  CHECK(*ReadFile(there + "/sub/c") == "3");
  // What was deleted there comes again.
  REQUIRE(RemoveTree(there + "/a b").ok());
  CHECK(send() == std::vector<std::string>{"a b"});
  CHECK(!FileMount::Read(there, here + "/none").ok());
  REQUIRE(RemoveTree(*directory).ok());
}

TEST_CASE("hosts: what is noted of the hosts is read back") {
  auto directory = MakeTempDirectory("/tmp/rt-hosts-unit-");
  REQUIRE(directory.ok());
  CHECK(absl::IsNotFound(ReadHostFile(*directory).status()));
  const HostList list{.hosts = {{"a", "10.0.0.1", 22, "me", "/k", "cpu=1", "x=y"},
                                {"b", "10.0.0.2", 0, "", "", "", ""}},
                      .proxy_command = "p",
                      .directory = "/scratch",
                      .head_port = 7,
                      .cluster_id = "ab"};
  REQUIRE(WriteHostFile(*directory, list).ok());
  auto read = ReadHostFile(*directory);
  REQUIRE(read.ok());
  CHECK(read->hosts.size() == 2);
  CHECK(read->hosts[0].labels == "x=y");
  CHECK(read->hosts[1].address == "10.0.0.2");
  CHECK(read->proxy_command == "p");
  CHECK(read->head_port == 7);
  CHECK(read->cluster_id == "ab");
  REQUIRE(RemoveTree(*directory).ok());
}
