// Who may be blamed for an exit: real shims and programs, and launchers that take over from others
// as a restarted daemon does.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/mem_store.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "worker/launch/launch_env.h"
#include "worker/launch/launch_lock.h"
#include "worker/launch/launcher.h"
#include "worker/launch/shim_file.h"

namespace rt::worker {
namespace {

const Fence kFence{{Owner::Of(TrialId{ExperimentId{1}, 0}), 1, 1}, 0};

struct OneNode {
  TempDir dir{"launch"};
  const std::string& path = dir.path();
  MemStore store;
  LocalTrees trees{path + "/checkpoints", {}};
  TreeFetcher fetcher{store, trees};
  OneNode() {
    REQUIRE(EnsureDirectory(path + "/run").ok());
  }

  // As one process of the daemon.
  std::unique_ptr<Launcher> Daemon() {
    const std::string bin = std::filesystem::path(RT_SHIM).parent_path().string();
    return std::make_unique<Launcher>(LauncherOptions{path, path + "/run", {.bin_dir = bin}},
                                      fetcher);
  }
  static pid_t Start(Launcher& launcher, const std::vector<std::string>& argv) {
    LaunchBody body{{.fence = kFence, .argv = argv, .env = {{"PATH", "/usr/bin:/bin"}}}};
    REQUIRE(launcher.Prepare(body).ok());
    auto started = launcher.Launch(body, true);
    REQUIRE(started.ok());
    return static_cast<pid_t>(started->pid);
  }
  // Lets a program go on that said `mkfifo fifo; read x < fifo`.
  static void Detach(Launcher& launcher) {
    const std::string fifo = launcher.DirOf(kFence).work() + "/fifo";
    for (int i = 0; i < 1'000 && !Exists(fifo); ++i) ::usleep(10'000);
    FILE* out = ::fopen(fifo.c_str(), "w");  // Waits until the program reads.
    REQUIRE(out != nullptr);
    ::fputs("go\n", out);
    ::fclose(out);
  }
  static ExitFacts Await(Launcher& launcher) {
    pollfd ended{launcher.Watch(kFence), POLLIN, 0};
    if (ended.fd >= 0) {
      REQUIRE(::poll(&ended, 1, 20'000) == 1);
      ::close(ended.fd);
    }
    return launcher.ReadExit(kFence, true);
  }
};

TEST_CASE("a trial sees its gpus and no others, also those that the worker found after its start") {
  std::map<std::string, Bytes> gpus;
  const NodeFacts node{.bin_dir = "/bin", .python_dir = "", .ask_gpus = [&] { return gpus; }};
  const auto sees = [&](const std::vector<std::string>& uuids) -> std::string {
    LaunchBody body;
    body.fence = kFence;
    body.gpu_uuids = uuids;
    for (const std::string& entry : LaunchEnv(body, {"/run"}, "/socket", node, {}))
      if (entry.starts_with("CUDA_VISIBLE_DEVICES=")) return entry.substr(entry.find('=') + 1);
    return "all";
  };
  CHECK(sees({}) == "all");  // There is no gpu, and nothing is said of any.
  CHECK(sees({"GPU-a"}) == "GPU-a");
  gpus["GPU-a"] = 9;
  CHECK(sees({}).empty());
}

TEST_CASE("the programs of each kind of owner are told whose they are, and see its gpus") {
  const NodeFacts node{.bin_dir = "/bin", .python_dir = "", .ask_gpus = [] {
                         return std::map<std::string, Bytes>{{"GPU-a", 9}};
                       }};
  const auto told = [&](const Owner& owner) {
    LaunchBody body;
    body.fence = {{owner, 1, 1}, 0};
    std::vector<std::string> kept;
    for (const std::string& entry : LaunchEnv(body, {"/run"}, "/socket", node, {}))
      if ((entry.starts_with("RT_") && entry.find("_ID=") != std::string::npos) ||
          entry.starts_with("CUDA_"))
        kept.push_back(entry);
    return Join(kept, " ");
  };
  CHECK(told(Owner::Of(TrialId{ExperimentId{3}, 12})) ==
        "CUDA_VISIBLE_DEVICES= RT_EXPERIMENT_ID=3 RT_TRIAL_ID=3/12");
  CHECK(told(Owner::Of(JobId{4})) == "RT_JOB_ID=4");
  CHECK(told(Owner::Of(ExecutorId{5})) == "CUDA_VISIBLE_DEVICES= RT_EXECUTOR_ID=5");
  const Owner of_newer_head{static_cast<Owner::Kind>(9), 6, 0};
  CHECK(told(of_newer_head) == "CUDA_VISIBLE_DEVICES=");
}

TEST_CASE("a signal is the trial's failure when the daemon that started it lived through it") {
  OneNode node;
  auto daemon = node.Daemon();
  ::kill(OneNode::Start(*daemon, {"sleep", "100"}), SIGKILL);
  ExitFacts exit = OneNode::Await(*daemon);
  CHECK(exit.signal == SIGKILL);
  CHECK(exit.witnessed);
  auto later = node.Daemon();  // It was written down: a restart does not forget it.
  auto found = later->Recover();
  REQUIRE(found.size() == 1);
  CHECK(found[0].exit->witnessed);
}

TEST_CASE("a program killed after its daemon was is a loss, also when the next daemon is there") {
  OneNode node;
  auto first = node.Daemon();
  const pid_t pid = OneNode::Start(*first, {"sleep", "100"});
  auto second = node.Daemon();
  auto found = second->Recover();
  REQUIRE(found.size() == 1);
  CHECK(found[0].pid == static_cast<uint64_t>(pid));
  REQUIRE_FALSE(found[0].exit.has_value());
  ::kill(pid, SIGKILL);
  ExitFacts exit = OneNode::Await(*second);
  CHECK(exit.signal == SIGKILL);
  CHECK_FALSE(exit.witnessed);
}

TEST_CASE("an exit code and a crash are the program's own under a later daemon as well") {
  for (const auto& [script, code, signal] :
       {std::tuple{"read x < fifo; exit 7", 7, 0}, {"read x < fifo; kill -SEGV $$", 0, SIGSEGV}}) {
    OneNode node;
    auto first = node.Daemon();
    OneNode::Start(*first, {"sh", "-c", std::string("mkfifo fifo; ") + script});
    auto second = node.Daemon();
    REQUIRE(second->Recover().size() == 1);
    OneNode::Detach(*second);
    ExitFacts exit = OneNode::Await(*second);
    CHECK(exit.exit_code == code);
    CHECK(exit.signal == signal);
    CHECK(exit.witnessed);
  }
}

TEST_CASE("a program that was dead before the daemon came was seen by nobody, whoever writes it") {
  OneNode node;
  auto first = node.Daemon();
  const pid_t pid = OneNode::Start(
      *first, {"sh", "-c", "mkfifo fifo; read x < fifo; kill -STOP $PPID; exit 3"});
  OneNode::Detach(*first);
  const ProcessIdentity child = *ReadProcessIdentity(pid);
  for (int i = 0; i < 1'000 && IsAlive(child); ++i) ::usleep(10'000);
  REQUIRE_FALSE(IsAlive(child));
  auto shim = ReadShimFile(node.Daemon()->DirOf(kFence).shim()).shim;
  REQUIRE(shim.has_value());
  auto second = node.Daemon();
  auto found = second->Recover();
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].exit.has_value());
  ::kill(shim->pid, SIGCONT);
  ExitFacts exit = OneNode::Await(*second);
  CHECK(exit.exit_code == 3);
  CHECK_FALSE(exit.witnessed);
}

TEST_CASE("a launch that the head refuses fails with its reason") {
  OneNode node;
  auto launcher = node.Daemon();
  LaunchBody body{{.fence = kFence, .refusal = "too long"}};
  const absl::Status refused = launcher->Prepare(body);
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(MessageOf(refused) == "too long");
}

TEST_CASE("of what was about to start when its daemon died nothing is left, nor its socket") {
  OneNode node;
  auto first = node.Daemon();
  LaunchBody body{{.fence = kFence, .argv = {"true"}, .env = {{"PATH", "/usr/bin:/bin"}}}};
  REQUIRE(first->Prepare(body).ok());
  REQUIRE(WriteFileAtomic(first->SocketOf(kFence), "").ok());
  REQUIRE(ArmFailpoints("worker.launch.after_body=error", "worker").ok());
  CHECK_FALSE(first->Launch(body, true).ok());
  REQUIRE(ArmFailpoints("", "worker").ok());
  REQUIRE(Exists(first->DirOf(kFence).body()));
  auto second = node.Daemon();
  CHECK(second->Recover().empty());
  CHECK_FALSE(Exists(second->DirOf(kFence).path));
  CHECK_FALSE(Exists(second->SocketOf(kFence)));
}

TEST_CASE("what a group says that it did not start is started again, though the group lives") {
  OneNode node;
  auto first = node.Daemon();
  const pid_t program = OneNode::Start(*first, {"sleep", "100"});
  const RunDir dir = first->DirOf(kFence);
  const ProcessIdentity shim = *ReadShimFile(dir.shim()).shim;
  auto text = ReadFile(dir.shim());
  REQUIRE(text.ok());
  const std::string said = text->substr(0, text->find('\n') + 1);  // Who the shim is.
  REQUIRE(WriteFileAtomic(dir.shim(), said + "group /group\nnot_started\n").ok());
  first.reset();
  CHECK(node.Daemon()->Recover().empty());
  CHECK_FALSE(Exists(dir.path));
  CHECK(IsAlive(shim));
  ::kill(program, SIGKILL);
}

TEST_CASE("the launch lock is held while anybody has the descriptor, and without a file") {
  const TempDir dir{"lock"};
  const LaunchLock later(dir.path() + "/lock");
  CHECK(later.IsHeld());  // Earlier releases made none.
  auto daemon = std::make_unique<LaunchLock>(dir.path() + "/lock");
  const int inherited = ::dup(daemon->Hold().value());
  CHECK(later.IsHeld());
  daemon.reset();
  CHECK(later.IsHeld());
  ::close(inherited);
  CHECK_FALSE(later.IsHeld());
}

TEST_CASE("neither a program nor its shim has the launch lock") {
  OneNode node;
  auto daemon = node.Daemon();
  const pid_t program = OneNode::Start(*daemon, {"sleep", "100"});
  const LaunchLock lock(node.path + "/launch-lock");
  CHECK(lock.IsHeld());
  daemon.reset();
  for (int i = 0; i < 1'000 && lock.IsHeld(); ++i) ::usleep(10'000);  // The nursery ends as well.
  CHECK_FALSE(lock.IsHeld());
  CHECK(::kill(program, SIGKILL) == 0);
}

TEST_CASE("killing the nursery kills no shim, and the next launch has another nursery") {
  OneNode node;
  auto daemon = node.Daemon();
  OneNode::Start(*daemon, {"sh", "-c", "mkfifo fifo; read x < fifo; exit 4"});
  auto shim = ReadShimFile(daemon->DirOf(kFence).shim()).shim;
  REQUIRE(shim.has_value());
  const std::string stat = *ReadFile("/proc/" + std::to_string(shim->pid) + "/stat");
  const pid_t forker = std::atoi(stat.c_str() + stat.rfind(')') + 4);
  REQUIRE(*ReadFile("/proc/" + std::to_string(forker) + "/comm") == "rt-shim\n");
  ::kill(forker, SIGKILL);
  OneNode::Detach(*daemon);
  ExitFacts exit = OneNode::Await(*daemon);
  CHECK(exit.exit_code == 4);
  CHECK(exit.witnessed);
  daemon->Forget(kFence);
  OneNode::Start(*daemon, {"sh", "-c", "exit 5"});
  CHECK(OneNode::Await(*daemon).exit_code == 5);
}

}  // namespace
}  // namespace rt::worker
