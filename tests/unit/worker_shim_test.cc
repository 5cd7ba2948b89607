// The real rt-shim with real processes.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/run/subprocess.h"
#include "tests/temp_dir.h"
#include "worker/launch/launcher.h"
#include "worker/launch/shim_file.h"
#include "worker/session/log_reader.h"

namespace rt::worker {
namespace {

struct Launched {
  TempDir dir{"shim"};
  const std::string& path = dir.path();
  std::string cgroup;
  Launched() { std::filesystem::create_directory(path + "/logs"); }

  Subprocess Start(const std::vector<std::string>& argv, const std::string& bytes_max = "1000000") {
    std::string spec = std::to_string(argv.size()) + std::string(1, '\0');
    for (const std::string& word : argv) spec += word + std::string(1, '\0');
    for (const std::string& word :
         {std::string("1"), std::string("PATH=/usr/bin:/bin"), path, path + "/logs", bytes_max,
          std::string("3"), cgroup}) {
      spec += word + std::string(1, '\0');
    }
    REQUIRE(WriteFileAtomic(path + "/spec", spec).ok());
    int fd = ::open((path + "/spec").c_str(), O_RDONLY | O_CLOEXEC);
    auto shim = Subprocess::Spawn({.argv = {RT_SHIM, path}, .fds = {{fd, 0}}, .setsid = true});
    ::close(fd);
    REQUIRE(shim.ok());
    return std::move(*shim);
  }
  // What the file says after its lines about processes.
  std::string Exit() const {
    const std::string text = *ReadFile(path + "/shim");
    return text.substr(text.find("exit_code"));
  }
  std::string Log(const std::string& stream) const {
    LogReader reader(path + "/logs", stream);
    std::string text;
    for (std::string part; !(part = reader.Read(1 << 16)).empty();) text += part;
    return text;
  }
  ProcessIdentity WaitForPid() const {
    for (int i = 0; i < 500 && !ReadShimFile(path + "/shim").program; ++i) ::usleep(10'000);
    auto identity = ReadShimFile(path + "/shim").program;
    REQUIRE(identity.has_value());
    return *identity;
  }
};

TEST_CASE("the exit code and both streams of a program are kept") {
  Launched one;
  Subprocess shim = one.Start({"sh", "-c", "echo out; echo err >&2; exit 7"});
  REQUIRE(shim.Wait(10'000).has_value());
  CHECK(one.Exit() == "exit_code 7\nsignal 0\nlaunch_failed 0\nreason \nended\n");
  CHECK(one.Log("stdout") == "out\n");
  CHECK(one.Log("stderr") == "err\n");
}

TEST_CASE("a signal that ends the program is named") {
  Launched one;
  Subprocess shim = one.Start({"sleep", "100"});
  ::kill(-one.WaitForPid().pid, SIGTERM);
  REQUIRE(shim.Wait(10'000).has_value());
  CHECK(one.Exit() == "exit_code 0\nsignal 15\nlaunch_failed 0\nreason \nended\n");
}

TEST_CASE("an end that was not written whole did not happen") {
  TempDir dir("shim");
  const std::string path = dir.File("shim");
  REQUIRE(WriteFileAtomic(path, "shim 1 2 other-boot\nexit_code 3\nsignal 0\nlaun").ok());
  ShimFile file = ReadShimFile(path);
  CHECK(file.has_shim);
  CHECK_FALSE(file.shim.has_value());
  CHECK_FALSE(file.exit.has_value());
  const std::string end = "\nexit_code 3\nsignal 0\nreason r\nended\n";
  REQUIRE(WriteFileAtomic(path, "shim 1 2 other-boot" + end).ok());
  CHECK_FALSE(ReadShimFile(path).exit.has_value());  // Its rows may be lost with the machine.
  const std::string boot(Trim(*ReadFile("/proc/sys/kernel/random/boot_id", 4096)));
  REQUIRE(WriteFileAtomic(path, "shim 1 2 " + boot + end).ok());
  REQUIRE(ReadShimFile(path).exit.has_value());
  CHECK_FALSE(ReadShimFile(path).exit->witnessed);
  REQUIRE(NoteWitnessed(path).ok());
  file = ReadShimFile(path);
  CHECK(file.exit->witnessed);
  CHECK(file.exit->exit_code == 3);
  CHECK(file.exit->reason == "r");
}

TEST_CASE("descendants, also those in sessions of their own, die with the program") {
  Launched one;
  Subprocess shim =
      one.Start({"sh", "-c", "setsid sleep 99 & echo $!; (setsid sleep 99 & echo $!); exit 0"});
  REQUIRE(shim.Wait(10'000).has_value());
  CHECK(one.Exit().starts_with("exit_code 0\n"));
  std::string pids = one.Log("stdout");
  char* at = pids.data();
  for (int i = 0; i < 2; ++i) {
    auto pid = static_cast<pid_t>(::strtol(at, &at, 10));
    REQUIRE(pid > 0);
    CHECK(::kill(pid, 0) != 0);
  }
}

TEST_CASE("a program begins in the cgroup that it is given, and all of it is killed there") {
  const std::string group = "/sys/fs/cgroup/unified/rt-unit-" + std::to_string(::getpid());
  if (::mkdir(group.c_str(), 0755) != 0) {
    WARN("no writable cgroup v2 at /sys/fs/cgroup/unified: not tested here");
    return;
  }
  Launched one;
  one.cgroup = group;
  Subprocess shim = one.Start({"sh", "-c", "cat /proc/self/cgroup; setsid sleep 99 & exit 0"});
  REQUIRE(shim.Wait(10'000).has_value());
  CHECK(one.Exit().starts_with("exit_code 0\n"));
  CHECK(one.Log("stdout").find("0::" + group.substr(group.rfind('/'))) != std::string::npos);
  CHECK(::rmdir(group.c_str()) == 0);  // Nothing is in it any more.
  Launched other;
  other.cgroup = group;
  Subprocess failed = other.Start({"true"});
  REQUIRE(failed.Wait(10'000).has_value());
  CHECK(other.Exit().find("launch_failed 1\nreason cgroup " + group) != std::string::npos);
}

TEST_CASE("a program that does not exist is a failed launch with its name") {
  Launched one;
  Subprocess shim = one.Start({"no-such-program-here"});
  REQUIRE(shim.Wait(10'000).has_value());
  CHECK(one.Exit() ==
        "exit_code 127\nsignal 0\nlaunch_failed 1\n"
        "reason program not found: no-such-program-here: No such file or directory\nended\n");
}

TEST_CASE("logs are cut into segments, the oldest are dropped, readers go on by offset") {
  Launched one;
  Subprocess shim = one.Start(
      {"sh", "-c", "for i in $(seq 0 39); do printf '%099d\\n' $i; sleep 0.01; done"},
      "500");
  REQUIRE(shim.Wait(20'000).has_value());
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(one.path + "/logs")) {
    files += entry.path().filename().string().starts_with("stdout.") ? 1 : 0;
  }
  CHECK(files == 3);
  std::string text = one.Log("stdout");
  CHECK(text.size() < 4000);
  CHECK(text.starts_with(std::string(99, '0') + "\n"));
  CHECK(text.ends_with("39\n"));
  LogReader tail(one.path + "/logs", "stdout");
  tail.SeekToTail(2);
  CHECK(tail.Read(1 << 16).size() == 200);
}

}  // namespace
}  // namespace rt::worker
