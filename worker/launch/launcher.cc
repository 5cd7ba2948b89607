#include "worker/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"
#include "common/run/random.h"
#include "worker/launch/shim_file.h"
#include "worker/launch/work_dir.h"
#include "worker/limits/memory_file.h"
#include "worker/limits/memory_watch.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr int kLaunchWaitMs = 10'000;
constexpr int kShimLooks = 200;
constexpr int kShimLookUs = 10'000;

// Whether the process has a handler for the signal, whose default would end it.
bool Catches(pid_t pid, int number) {
  constexpr std::string_view kCaught = "SigCgt:\t";
  auto status = ReadFile("/proc/" + std::to_string(pid) + "/status");
  if (!status.ok()) return false;
  const size_t at = status->find(kCaught);
  if (at == std::string::npos) return false;
  const uint64_t mask = std::strtoull(status->c_str() + at + kCaught.size(), nullptr, 16);
  return (mask >> (number - 1) & 1) != 0;
}

// Waits for the shim's line on `fd`; empty at its end.
std::string ReadLine(int fd) {
  std::string line;
  pollfd wait{fd, POLLIN, 0};
  char buffer[256];
  while (line.find('\n') == std::string::npos && ::poll(&wait, 1, kLaunchWaitMs) > 0) {
    ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count <= 0) break;
    line.append(buffer, static_cast<size_t>(count));
  }
  return line;
}

// Signals that a person, an out-of-memory killer or a machine that is being taken down sends; the
// others are a program's own doing.
bool IsFromOutside(int number) {
  return number == SIGKILL || number == SIGTERM || number == SIGHUP || number == SIGINT ||
         number == SIGQUIT;
}

// The shim's file once `ready` likes it, or as it is after 2 s.
template <class Ready>
ShimFile AwaitShimFile(const std::string& path, Ready ready) {
  ShimFile file = ReadShimFile(path);
  for (int i = 0; i < kShimLooks && !ready(file); ++i) {
    ::usleep(kShimLookUs);
    file = ReadShimFile(path);
  }
  return file;
}

// Once a shim has begun. Where nobody can begin one any more, it is not waited for.
ShimFile AwaitShim(const std::string& path, const LaunchLock& lock) {
  bool is_last = false;
  return AwaitShimFile(path, [&](const ShimFile& now) {
    if (is_last || (now.has_shim && !now.not_started)) return true;
    is_last = !lock.IsHeld();  // What was written before that may not have been read.
    return false;
  });
}

// All of its parts into one directory; of files with one name rank 0's stays.
absl::Status RestoreCheckpoint(TreeFetcher& fetcher, const LaunchBody& body,
                               const std::string& to) {
  if (body.checkpoint_on_replicas) return fetcher.FetchReplica(body.checkpoint, body.fence, to);
  if (body.checkpoint_shards.empty()) return fetcher.Fetch(body.checkpoint, to, to);
  std::vector<std::string> manifests = body.checkpoint_shards;
  manifests.push_back(body.checkpoint);
  return fetcher.FetchMerged(manifests, to);
}

}  // namespace

Launcher::Launcher(LauncherOptions options, TreeFetcher& fetcher)
    : options_(std::move(options)), fetcher_(fetcher), dirs_(options_.state_dir),
      cache_(options_.state_dir + "/cache", fetcher),
      cgroups_(Cgroups::FindParent(), options_.state_dir),
      launch_lock_(options_.state_dir + "/launch-lock"),
      warm_(options_.state_dir, options_.runtime_dir, options_.node.bin_dir, launch_lock_),
      preflights_(options_.node.bin_dir),
      forker_(options_.state_dir, options_.node.bin_dir, launch_lock_) {}

RunDir Launcher::DirOf(const Fence& fence) const { return dirs_.Of(fence); }
std::string Launcher::SocketOf(const Fence& fence) const {
  return options_.runtime_dir + "/" + rt::ToString(fence);
}
std::string Launcher::LogsOf(const Fence& fence) const { return dirs_.LogsOf(fence); }

// Numbers only grow, so the file never becomes shorter: whoever is killed leaves one of both.
void Launcher::KeepBarrier(const AttemptId& attempt, uint64_t passed) {
  const std::string path = dirs_.Of({attempt, 0}).barrier();
  const absl::Status kept = RunDirs::Write(path, std::to_string(passed) + "\n");
  if (kept.ok()) return;
  RT_LOG(kWarning) << "cannot keep that a barrier is passed: " << MessageOf(kept);
}

uint64_t Launcher::KeptBarrier(const AttemptId& attempt) const {
  const absl::StatusOr<std::string> text = ReadFile(RunDir{LogsOf({attempt, 0})}.barrier(), 100);
  uint64_t passed = 0;
  if (text.ok()) std::from_chars(text->data(), text->data() + text->size(), passed);
  return passed;
}

absl::StatusOr<std::string> Launcher::TreeOf(const LaunchBody& body) {
  if (body.bundle.empty()) return "";
  return cache_.Get(body.bundle, body.fence, TreeKind::kBundle);
}

absl::Status Launcher::Prepare(LaunchBody& body) {
  const RunDir dir = DirOf(body.fence);
  if (!body.refusal.empty()) return Invalid(body.refusal);
  RT_RETURN_IF_ERROR(FailAt("worker.prepare.before_directory"));
  RT_RETURN_IF_ERROR(dirs_.Make(body.fence));
  RT_RETURN_IF_ERROR(FailAt("worker.prepare.after_directory"));
  RT_ASSIGN_OR_RETURN(const std::string tree, TreeOf(body));
  RT_ASSIGN_OR_RETURN(const std::string cwd, MakeWorkDir(body, tree, dir.work()));
  std::vector<std::string> inputs;
  for (const InputFile& input : body.inputs) {
    RT_ASSIGN_OR_RETURN(std::string path, cache_.Get(input.manifest, body.fence));
    inputs.push_back(path);
  }
  if (!body.checkpoint.empty()) {
    const absl::Status pulled = RestoreCheckpoint(fetcher_, body, dir.checkpoint());
    // It was whole when it was committed: a piece that is missing is as bad as one that changed.
    body.broken_checkpoint = absl::IsDataLoss(pulled) || absl::IsNotFound(pulled);
    RT_RETURN_IF_ERROR(Annotate(
        pulled, body.broken_checkpoint ? "the checkpoint is broken" : "pull the checkpoint"));
  }
  RT_RETURN_IF_ERROR(RunDirs::Write(dir.config(), body.params.empty() ? "{}" : body.params));
  if (body.keeps_port) {
    RT_ASSIGN_OR_RETURN(body.port, ports_.Keep(body.fence, body.port));
  }
  body.token = RandomHex(32);
  body.started_at = WallClock();
  body.cgroup = cgroups_.Make(body.fence, body.limits());
  if (body.limits().cpu > 0 && !cgroups_.can_limit_cpu()) {
    RT_LOG(kWarning) << rt::ToString(body.fence) << " is not held to its cpus: there is no cgroup "
                     << "v2 with a cpu controller here that this daemon may use";
  }
  body.shim_spec = ShimSpec(body, cwd, inputs);
  return absl::OkStatus();
}

std::string Launcher::ShimSpec(const LaunchBody& body, const std::string& cwd,
                               const std::vector<std::string>& inputs) const {
  const RunDir dir = DirOf(body.fence);
  std::string spec;
  auto field = [&](std::string_view text) { spec.append(text).push_back('\0'); };
  auto list = [&](const std::vector<std::string>& texts) {
    field(std::to_string(texts.size()));
    for (const std::string& text : texts) field(text);
  };
  list(body.argv);
  list(LaunchEnv(body, dir, SocketOf(body.fence), options_.node, inputs));
  field(cwd);
  field(dir.path);
  field(std::to_string(limits::kLogFileBytesMax));
  field(std::to_string(limits::kLogFilesKept));
  field(body.cgroup);
  return spec;
}

absl::StatusOr<Launcher::Started> Launcher::Launch(const LaunchBody& body, bool may_be_warm) {
  const RunDir dir = DirOf(body.fence);
  RT_RETURN_IF_ERROR(FailAt("worker.launch.before_body"));
  RT_RETURN_IF_ERROR(RunDirs::Write(dir.body(), ToJson(body).Dump()));
  RT_RETURN_IF_ERROR(FailAt("worker.launch.after_body"));
  if (may_be_warm && warm_.Wants(body)) {
    RT_ASSIGN_OR_RETURN(const std::string tree, TreeOf(body));
    absl::StatusOr<int> connection = warm_.Launch(body, dir.path, tree);
    if (connection.ok()) {
      std::lock_guard lock(mutex_);
      started_.insert(body.fence);
      return Started{.warm = *connection};
    }
    RT_LOG(kWarning) << rt::ToString(body.fence)
                     << ": cold start: " << MessageOf(connection.status());
  }
  RT_ASSIGN_OR_RETURN(uint64_t pid, LaunchCold(body));
  ReachFailpoint("worker.launch.after_start");
  return Started{.pid = pid};
}

absl::StatusOr<std::string> Launcher::AskForShim(const LaunchBody& body) {
  RT_ASSIGN_OR_RETURN(int spec, MemoryFile(body.shim_spec));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    ::close(spec);
    return ErrnoStatus(errno, "pipe");
  }
  absl::Status asked = forker_.Start(DirOf(body.fence).path, spec, ends[1]);
  ::close(ends[1]);
  ::close(spec);
  std::string line = asked.ok() ? ReadLine(ends[0]) : "";
  ::close(ends[0]);
  if (!asked.ok()) return Annotate(asked, "start rt-shim");
  return line;
}

absl::StatusOr<uint64_t> Launcher::LaunchCold(const LaunchBody& body) {
  const Fence& fence = body.fence;
  const RunDir dir = DirOf(fence);
  RT_ASSIGN_OR_RETURN(std::string line, AskForShim(body));
  // A forker that was killed takes the request with it. A shim says first of all who it is, so that
  // here there was none, and nothing is started twice.
  if (line.empty()) {
    const ShimFile file = ReadShimFile(dir.shim());
    if (!file.shim || file.not_started) {
      RT_ASSIGN_OR_RETURN(line, AskForShim(body));
    }
  }
  {
    std::lock_guard lock(mutex_);
    started_.insert(fence);
  }
  uint64_t pid = std::strtoull(line.c_str(), nullptr, 10);
  if (pid != 0) return pid;
  AwaitShimFile(dir.shim(), [](const ShimFile& file) { return file.exit.has_value(); });
  ExitFacts facts = ReadExit(fence, true);
  return absl::FailedPreconditionError(facts.reason.empty() ? "rt-shim failed" : facts.reason);
}

int Launcher::Watch(const Fence& fence) {
  const ShimFile file = ReadShimFile(DirOf(fence).shim());
  const auto identity = file.shim;
  if (!identity) return -1;
  if (!file.group.empty()) return WarmServers::Watch(file.group, DirOf(fence).path);
  int fd = static_cast<int>(::syscall(SYS_pidfd_open, identity->pid, 0u));
  if (fd >= 0 && !IsAlive(*identity)) {
    ::close(fd);
    return -1;
  }
  return fd;
}

bool Launcher::WasForked(const Fence& fence) const {
  const ShimFile file = ReadShimFile(DirOf(fence).shim());
  return !file.group.empty();
}

ExitFacts Launcher::ReadExit(const Fence& fence, bool alive) {
  bool started_here = false;
  warm_.Release(fence);
  {
    std::lock_guard lock(mutex_);
    started_here = started_.erase(fence) > 0;
    alive = alive && !ended_unseen_.contains(fence);
  }
  const std::string path = DirOf(fence).shim();
  const ShimFile file = ReadShimFile(path);
  if (!file.exit) {
    // Without its shim nobody can say how it ends: end it, and do not blame the trial.
    Signal(fence, true);
    return {.signal = SIGKILL, .witnessed = false, .reason = "its rt-shim was killed"};
  }
  ExitFacts facts = *file.exit;
  std::string memory = file.over_memory;
  if (auto limit = cgroups_.RanOutOfMemory(fence)) memory = BeyondMemory(0, *limit);
  if (facts.signal == SIGKILL && !memory.empty()) {
    facts.reason = memory;
    facts.witnessed = true;  // By us or by the kernel, which say why.
    return facts;
  }
  // What killed an earlier daemon may be about to kill its programs, also when we are back first.
  const bool is_ours = started_here || !IsFromOutside(facts.signal);
  if (facts.witnessed || !alive || !is_ours) return facts;
  facts.witnessed = true;
  if (absl::Status noted = NoteWitnessed(path); !noted.ok()) {
    RT_LOG(kWarning) << MessageOf(noted);
  }
  return facts;
}

void Launcher::Signal(const Fence& fence, bool kill) {
  const auto identity = ReadShimFile(DirOf(fence).shim()).program;
  if (identity && IsAlive(*identity)) ::kill(-identity->pid, kill ? SIGKILL : SIGTERM);
}

bool Launcher::Notify(const Fence& fence) {
  const auto identity = ReadShimFile(DirOf(fence).shim()).program;
  if (!identity || !IsAlive(*identity) || !Catches(identity->pid, SIGUSR2)) return false;
  return ::kill(identity->pid, SIGUSR2) == 0;
}

bool Launcher::AskForStacks(const Fence& fence, bool forced) {
  const auto identity = ReadShimFile(DirOf(fence).shim()).program;
  const bool listens =
      identity && IsAlive(*identity) && (forced || Catches(identity->pid, SIGQUIT));
  if (!listens) return false;
  if (::kill(identity->pid, SIGQUIT) == 0) return true;
  RT_LOG(kWarning) << rt::ToString(fence) << ": SIGQUIT: " << std::strerror(errno);
  return false;
}

void Launcher::Stop() {
  warm_.Stop();
  forker_.Stop();
}

void Launcher::EndForMemory(const Fence& fence, const std::string& why) {
  if (absl::Status noted = NoteOverMemory(DirOf(fence).shim(), why); !noted.ok()) {
    RT_LOG(kWarning) << MessageOf(noted);
  }
  Signal(fence, true);
}

void Launcher::Forget(const Fence& fence) {
  ::unlink(SocketOf(fence).c_str());
  fetcher_.Leave(DirOf(fence).checkpoint(), true);
  ReachFailpoint("worker.forget.before_retire");
  if (absl::Status done = dirs_.Retire(fence); !done.ok()) {
    RT_LOG(kWarning) << MessageOf(done);
  }
  cache_.Release(fence);
  cgroups_.Remove(fence);
  warm_.Release(fence);
  ports_.Release(fence);
  std::lock_guard lock(mutex_);
  started_.erase(fence);
  ended_unseen_.erase(fence);
}

std::vector<Launcher::Found> Launcher::Recover() {
  std::vector<Found> found;
  std::vector<Fence> fences;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(options_.state_dir + "/attempts", error)) {
    if (auto fence = ParseFence(entry.path().filename().string())) fences.push_back(*fence);
  }
  for (const auto& entry : fs::directory_iterator(options_.runtime_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("warm-")) continue;  // WarmServers knows whether they are used.
    auto fence = ParseFence(name);
    const bool used = fence && std::find(fences.begin(), fences.end(), *fence) != fences.end();
    if (!used) ::unlink(entry.path().c_str());  // The socket of what an earlier daemon forgot.
  }
  for (const Fence& fence : fences) {
    if (auto one = RecoverOne(fence)) {
      found.push_back(std::move(*one));
      continue;
    }
    ::unlink(SocketOf(fence).c_str());
    cgroups_.Remove(fence);
    if (absl::Status removed = RemoveTree(DirOf(fence).path); !removed.ok()) {
      RT_LOG(kWarning) << MessageOf(removed);
    }
  }
  return found;
}

std::optional<Launcher::Found> Launcher::RecoverOne(const Fence& fence) {
  const RunDir dir = DirOf(fence);
  auto text = ReadFile(dir.body());
  auto json = text.ok() ? Json::Parse(*text) : absl::StatusOr<Json>(text.status());
  if (!json.ok()) return std::nullopt;  // Not started: the head will ask again.
  ShimFile file = AwaitShim(dir.shim(), launch_lock_);
  if (!file.has_shim || file.not_started) return std::nullopt;
  if (!file.shim) {
    RT_LOG(kInfo) << rt::ToString(fence) << ": lost when the machine went down";
    return std::nullopt;
  }
  Found found{.body = LaunchBodyFrom(fence, *json)};
  if (!found.body.bundle.empty()) cache_.Keep(found.body.bundle, fence);
  for (const InputFile& input : found.body.inputs) cache_.Keep(input.manifest, fence);
  if (!file.exit && file.shim && IsAlive(*file.shim)) {
    file = AwaitShimFile(
        dir.shim(), [](const ShimFile& now) { return now.program || now.exit || now.not_started; });
    if (file.not_started) return std::nullopt;
    found.pid = file.program ? static_cast<uint64_t>(file.program->pid) : 0;
    if (file.program && !IsAlive(*file.program)) {  // Its shim still writes down what nobody saw.
      std::lock_guard lock(mutex_);
      ended_unseen_.insert(fence);
    }
    if (!ReadShimFile(dir.shim()).exit) return found;
  }
  found.exit = ReadExit(fence, false);
  return found;
}

}  // namespace rt::worker
