#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/json.h"
#include "common/base/limits_aws.h"
#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/provider/aws/aws_setup.h"
#include "common/provider/aws/user_data.h"
#include "common/run/files.h"
#include "common/run/random.h"
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
  // What it prints is what the console of the machine shows.
  std::string Boot(const WorkerBoot& boot) {
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
    return done->output;
  }
  std::string Log() const { return *ReadFile(root + "/var/log/rt-worker.log"); }
  // An archive with a worker that notes its arguments, and what a head answers with it.
  WorkerBoot WithProgramsOfHead() {
    std::filesystem::rename(root + "/tools/rt-worker", root + "/rt-worker");
    std::filesystem::create_directories(root + "/archive/bin");
    std::filesystem::rename(root + "/rt-worker", root + "/archive/bin/rt-worker");
    std::string large;  // So that the archive has two pieces.
    while (large.size() < 2'600'000) large += RandomHex(256);
    REQUIRE(WriteFileAtomic(root + "/archive/bin/large", large).ok());
    const std::string file = root + "/archive.tar.gz";
    REQUIRE(RunProgram({.argv = {"tar", "-czf", file, "-C", root + "/archive", "bin"}}, "", 60'000)
                ->exit.ok());
    const std::string archive = *ReadFile(file);
    std::string answer;
    for (size_t at = 0; at < archive.size(); at += limits::kProgramsPieceBytes)
      answer += "11 bytes..." + archive.substr(at, limits::kProgramsPieceBytes);
    REQUIRE(WriteFileAtomic(root + "/answer", answer).ok());
    Hasher hasher(HashKind::kSha256);
    hasher.Update(archive);
    const Json token = Json::MakeObject(
        {{"id", "t"}, {"cluster", "c1"}, {"ca", "CA\nLINE\n"}, {"cert", "CERT"}, {"key", "KEY"}});
    Tool("sleep", "exit 0");
    return {.head_address = "10.0.0.9:1,10.0.0.1:6379",
            .token = "rtj1." + Base64Encode(token.Dump()),
            .name = "worker-1",
            .programs_sha256 = std::string(DigestHex(hasher.Finish()))};
  }
  // A curl that notes where it is sent and what it shows; the first head cannot be reached.
  void Curl(const std::string& answer) {
    Tool("curl", "root=" + root + R"sh(
if [ "$1" = -V ]; then echo 'Features: HTTP2 SSL'; exit; fi
while [ $# -gt 1 ]; do
  case "$1" in
    --cacert) ca=$(cat "$2"; echo x) ;; --cert) cert=$(cat "$2") ;; --key) key=$(cat "$2") ;;
    --connect-to) to=$2 ;; --data-binary) sent=$(wc -c <"${2#@}") ;;
    -D) headers=$2 ;; -o) out=$2 ;;
  esac
  shift
done
echo "$to $1 ${ca%x} $cert $key $sent" >>"$root/asked"
[ "$to" != "::10.0.0.9:1" ] || exit 7
)sh" + answer);
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

TEST_CASE("user data: programs come from the head, with the certificate of the join token") {
  Machine machine;
  const WorkerBoot boot = machine.WithProgramsOfHead();
  machine.Curl("cp \"$root/answer\" \"$out\"");
  machine.Boot(boot);
  CHECK(machine.After("--head") == "10.0.0.9:1,10.0.0.1:6379");
  CHECK(*ReadFile(machine.root + "/asked") ==
        "::10.0.0.9:1 https://head.c1.rt/rt.v1.BootService/Programs CA\nLINE\n CERT KEY 5\n"
        "::10.0.0.1:6379 https://head.c1.rt/rt.v1.BootService/Programs CA\nLINE\n CERT KEY 5\n");
  CHECK(!Exists(machine.root + "/run/rt-boot/key.pem"));
}

TEST_CASE("user data: an answer that is cut short is fetched again, and never run") {
  Machine machine;
  const WorkerBoot boot = machine.WithProgramsOfHead();
  machine.Curl(
      "if [ -e \"$root/once\" ]; then cp \"$root/answer\" \"$out\"; else "
      "head -c 40 \"$root/answer\" >\"$out\"; : >\"$root/once\"; fi");
  machine.Boot(boot);
  CHECK(machine.After("--name") == "worker-1");
  CHECK(machine.Log().find("computed checksum did NOT match") != std::string::npos);
}

TEST_CASE("user data: a head that refuses the token is not asked again") {
  Machine machine;
  const WorkerBoot boot = machine.WithProgramsOfHead();
  machine.Curl(
      ": >\"$out\"; echo 'grpc-status: 7' >\"$headers\"; "
      "echo 'grpc-message: this token was used' >>\"$headers\"");
  const std::string console = machine.Boot(boot);
  CHECK(!Exists(machine.root + "/argv"));
  CHECK(Exists(machine.root + "/ended"));
  const std::string asked = *ReadFile(machine.root + "/asked");
  CHECK(asked.find("::10.0.0.1") == asked.rfind("::10.0.0.1"));
  CHECK(console.find("the head says: this token was used") != std::string::npos);
}

TEST_CASE("user data: a curl without HTTP/2 is named on the console") {
  Machine machine;
  const WorkerBoot boot = machine.WithProgramsOfHead();
  machine.Tool("curl", "echo 'Features: IPv6 SSL'");
  const std::string console = machine.Boot(boot);
  CHECK(console.find("the curl of this image has no HTTP/2") != std::string::npos);
  CHECK(Exists(machine.root + "/ended"));
}

TEST_CASE("user data: a worker whose head is gone for too long ends the machine at once") {
  Machine machine;
  machine.Tool("rt-worker", "echo \"$@\" >>" + machine.root + "/starts; exit 3");
  WorkerBoot boot = Usual();
  boot.dead_man = "1800s";
  const std::string console = machine.Boot(boot);
  const auto starts = Split(*ReadFile(machine.root + "/starts"), '\n');
  CHECK(starts.size() == 2);
  CHECK(starts[0].find("--dead-man 1800s") != std::string::npos);
  CHECK(console.find("the head was silent for too long") != std::string::npos);
}

TEST_CASE("user data: an rt beside the worker runs the setup commands before it") {
  Machine machine;
  machine.Tool("rt", "printf '%s\\0' \"$@\" >" + machine.root + "/argv");
  machine.Boot(Usual());
  CHECK(machine.Argv()[0] == "__machine");
  CHECK(machine.Argv()[1] == machine.root + "/tools/rt-worker");
  CHECK(machine.After("--name") == "worker-1");
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

TEST_CASE("aws setup: where the programs come from, what runs first, and when a machine gives up") {
  const Json pool = Json::MakeObject(
      {{"node_config", Json::MakeObject({{"InstanceType", "m5.large"}})}, {"resources", "cpu=2"}});
  Json provider = Json::MakeObject(
      {{"type", "aws"}, {"region", "us-west-2"}, {"pools", Json::MakeObject({{"cpu", pool}})}});
  auto fault = [&](const char* key, Json value) {
    Json changed = provider;
    changed.Set(key, std::move(value));
    return MessageOf(ReadAwsSetup(changed).status());
  };
  CHECK((*ReadAwsSetup(provider))->NeedsPrograms());
  CHECK((*ReadAwsSetup(provider))->SetupCommands().empty());
  CHECK(fault("programs", "image").empty());
  CHECK(fault("programs", "head").find("'image'") != std::string::npos);
  CHECK(fault("dead_man_s", 0).empty());
  CHECK(fault("dead_man_s", 90.5).empty());
  CHECK(fault("dead_man_s", 59).find("60 s") != std::string::npos);
  CHECK(fault("dead_man_s", "1h").find("60 s") != std::string::npos);
  auto with_commands = [&](Json commands) {
    Json changed = pool;
    changed.Set("setup_commands", std::move(commands));
    return Json::MakeObject({{"cpu", std::move(changed)}});
  };
  CHECK(fault("pools", with_commands("pip install x")).find("list") != std::string::npos);
  CHECK(fault("pools", with_commands(Json::Array{1})).find("list") != std::string::npos);
  CHECK(fault("pools", with_commands(Json::Array{std::string(300'000, 'x')})).find("256 KiB") !=
        std::string::npos);
  provider.Set("programs", "image");
  provider.Set("pools", with_commands(Json::Array{"pip install x", "true"}));
  const auto setup = ReadAwsSetup(provider);
  REQUIRE(setup.ok());
  CHECK_FALSE((*setup)->NeedsPrograms());
  CHECK((*setup)->SetupCommands() ==
        std::map<std::string, std::vector<std::string>>{{"cpu", {"pip install x", "true"}}});
}
