#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/limits_aws.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/user_data.h"
#include "common/run/files.h"
#include "common/run/subprocess.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {

constexpr char kHostile[] = "$(touch pwned) `touch pwned`'\";touch pwned #\nRT_BOOT\ntouch pwned\n";

// The script with its directories below `root`, and programs that note what they get.
struct Machine {
  TempDir temporary{"user-data"};
  const std::string& root = temporary.path();

  Machine() {
    REQUIRE(EnsureDirectory(root + "/tools").ok());
    Tool("shutdown", "echo \"$@\" >" + root + "/ended");
    Tool("rt-worker", "for a in \"$@\"; do printf '%s\\0' \"$a\"; done >" + root + "/argv");
  }
  void Tool(const std::string& name, const std::string& body) {
    REQUIRE(
        WriteFileAtomic(root + "/tools/" + name, "#!/bin/sh\n" + body + "\n", {.mode = 0755}).ok());
  }
  void Boot(const WorkerBoot& boot) {
    std::string script = *WorkerUserData(boot);
    for (const char* directory :
         {"/run/rt-boot", "/opt/rt", "/var/lib/rt-worker", "/var/log/rt-worker.log"}) {
      const std::string at = "=" + std::string(directory) + "\n";
      const size_t found = script.find(at);
      REQUIRE(found != std::string::npos);
      script.replace(found, at.size(), "=" + root + directory + "\n");
    }
    REQUIRE(EnsureDirectory(root + "/run").ok());
    REQUIRE(EnsureDirectory(root + "/opt").ok());
    std::filesystem::create_directories(root + "/var/lib");
    std::filesystem::create_directories(root + "/var/log");
    REQUIRE(WriteFileAtomic(root + "/boot.sh", script).ok());
    const std::vector<std::string> env = {"PATH=" + root + "/tools:/usr/bin:/bin"};
    const auto done = RunProgram({.argv = {"/bin/sh", root + "/boot.sh"}, .env = env}, "", 60'000);
    REQUIRE(done.ok());
  }
  std::vector<std::string> Argv() const {
    const auto text = ReadFile(root + "/argv");
    REQUIRE(text.ok());
    std::vector<std::string> argv = Split(*text, '\0');
    argv.pop_back();
    return argv;
  }
  std::string After(const std::string& flag) const {
    const auto argv = Argv();
    const auto at = std::find(argv.begin(), argv.end(), flag);
    return at == argv.end() ? "" : *(at + 1);
  }
};

WorkerBoot Usual() {
  return {.head_address = "10.0.0.1:6379", .token = "the-token", .name = "worker-1"};
}

}  // namespace

TEST_CASE("user data: the worker is started with the values, and the machine ends after it") {
  Machine machine;
  WorkerBoot boot = Usual();
  boot.resources = "cpu=2,gpu=1";
  boot.labels = "zone=a";
  machine.Boot(boot);
  CHECK(machine.After("--head") == "10.0.0.1:6379");
  CHECK(machine.After("--name") == "worker-1");
  CHECK(machine.After("--resources") == "cpu=2,gpu=1");
  CHECK(machine.After("--labels") == "zone=a");
  CHECK(machine.After("--notices") == "aws");
  CHECK(*ReadFile(machine.After("--token-file")) == "the-token");
  CHECK(Exists(machine.root + "/ended"));
}

TEST_CASE("user data: no value reaches a shell") {
  Machine machine;
  WorkerBoot boot = Usual();
  boot.head_address = boot.resources = boot.labels = boot.name = boot.user = kHostile;
  boot.token = kHostile;
  const std::string script = *WorkerUserData(boot);
  CHECK(script.find("pwned") == std::string::npos);
  machine.Boot(boot);
  // $(…) drops line ends at the end of a value.
  const std::string_view trimmed = Trim(kHostile);
  for (const char* flag : {"--head", "--name", "--resources", "--labels"})
    CHECK(machine.After(flag) == trimmed);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(machine.root))
    CHECK(entry.path().filename() != "pwned");
  CHECK(!Exists("pwned"));
}

TEST_CASE("user data: programs with another digest are never run") {
  Machine machine;
  machine.Tool("curl", "for a in \"$@\"; do last=$a; done; echo bad >" + machine.root +
                           "/run/rt-boot/programs; echo \"$last\" >>" + machine.root + "/urls");
  machine.Tool("sleep", "exit 0");
  WorkerBoot boot = Usual();
  boot.programs_url = "https://example.org/$(x)";
  boot.programs_sha256 = std::string(64, 'a');
  machine.Boot(boot);
  CHECK(!Exists(machine.root + "/argv"));
  CHECK(Exists(machine.root + "/ended"));
  CHECK(ReadFile(machine.root + "/urls")->starts_with("https://example.org/$(x)\n"));
}

TEST_CASE("user data: a worker that fails is started again, a bounded number of times") {
  Machine machine;
  machine.Tool("rt-worker", "echo x >>" + machine.root + "/starts; exit 1");
  machine.Tool("sleep", "exit 0");
  machine.Boot(Usual());
  CHECK(ReadFile(machine.root + "/starts")->size() == 40);
  CHECK(Exists(machine.root + "/ended"));
}

TEST_CASE("user data: the script is POSIX and without findings of shellcheck") {
  const std::string script = *WorkerUserData(Usual());
  TempDir directory("user-data");
  REQUIRE(WriteFileAtomic(directory.path() + "/boot.sh", script).ok());
  const auto parsed =
      RunProgram({.argv = {"/bin/sh", "-n", directory.path() + "/boot.sh"}}, "", 60'000);
  REQUIRE(parsed.ok());
  CHECK(parsed->exit.ok());
  const auto checked = RunProgram(
      {.argv = {"/usr/bin/shellcheck", "-s", "sh", directory.path() + "/boot.sh"}}, "", 60'000);
  REQUIRE(checked.ok());
  INFO(checked->output);
  CHECK(checked->exit.ok());
}

TEST_CASE("user data: more than EC2 takes is refused") {
  WorkerBoot boot = Usual();
  boot.labels = std::string(limits::kEc2UserDataMax, 'x');
  CHECK(absl::IsInvalidArgument(WorkerUserData(boot).status()));
}
