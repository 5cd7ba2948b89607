#include "cli/client/local_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <sstream>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/strays.h"
#include "common/run/clock.h"
#include "common/run/files.h"
#include "common/run/find_program.h"
#include "common/run/owned_fd.h"
#include "common/run/runtime_dir.h"

namespace rt {
namespace {

constexpr Millis kHeadStartMax = 20'000;  // A loaded machine and a journal to replay.
constexpr Millis kPoll = 20;

std::string LastLines(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return "";
  std::vector<std::string> lines = Split(Trim(*text), '\n');
  size_t first = lines.size() > 3 ? lines.size() - 3 : 0;
  return Join({lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end()}, "\n");
}

// Whether the process is one of our daemons, with this state directory in its arguments: whoever
// wrote its pid file must not have us end another process.
bool IsDaemonOf(pid_t pid, const std::filesystem::path& state) {
  const std::string process = "/proc/" + std::to_string(pid);
  absl::StatusOr<std::string> comm = ReadFile(process + "/comm", 4096);
  absl::StatusOr<std::string> arguments = ReadFile(process + "/cmdline");
  const std::string tail =
      "/" + state.parent_path().filename().string() + "/" + state.filename().string();
  return comm.ok() && comm->starts_with("rt-") && arguments.ok() &&
         arguments->find(tail) != std::string::npos;
}

}  // namespace

StartLock::StartLock(const std::string& path)
    : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (fd_ >= 0)
    while (flock(fd_, LOCK_EX) != 0 && errno == EINTR) continue;
}
StartLock::~StartLock() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<ProcessIdentity> ReadPidFile(const std::string& path) {
  RT_ASSIGN_OR_RETURN(std::string text, ReadFile(path, 4096));
  std::istringstream words(text);
  ProcessIdentity recorded;
  words >> recorded.pid;
  if (recorded.pid <= 0) return NotFound(path + ": holds no pid");
  waitpid(recorded.pid, nullptr, WNOHANG);  // Our own dead child is no zombie for long.
  RT_ASSIGN_OR_RETURN(ProcessIdentity now, ReadProcessIdentity(recorded.pid));
  if (!(words >> recorded.start_time)) recorded.start_time = now.start_time;
  if (!IsDaemonOf(recorded.pid, std::filesystem::path(path).parent_path()))
    return NotFound(path + ": another process");
  if (!IsAlive(recorded)) return NotFound(path + ": the process is gone");
  return recorded;
}

bool LocalCluster::HeadIsAlive() const {
  return ReadPidFile(directory_ + "/head/pid").ok() && Exists(directory_ + "/head/address");
}

absl::Status LocalCluster::EnsureHead() const {
  if (HeadIsAlive()) return absl::OkStatus();
  StartLock lock(directory_ + "/start-lock");
  if (HeadIsAlive()) return absl::OkStatus();
  return StartHead();
}

absl::Status LocalCluster::StartHead() const {
  std::string head = directory_ + "/head";
  RT_RETURN_IF_ERROR(EnsureDirectory(head));
  if (!ReadPidFile(head + "/pid").ok()) RT_RETURN_IF_ERROR(RemoveTree(head + "/address"));
  RT_ASSIGN_OR_RETURN(std::string binaries, BinaryDirectory());
  OwnedFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  OwnedFd log(open((head + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (null.get() < 0 || log.get() < 0) return ErrnoStatus(errno, "open " + head + "/log");
  SpawnOptions options;
  options.argv = {binaries + "/rt-head", "--state-dir", head, "--config",
                  directory_ + "/config.json"};
  options.argv.insert(options.argv.end(), head_flags_.begin(), head_flags_.end());
  options.cwd = "/";
  options.fds = {{null.get(), 0}, {log.get(), 1}, {log.get(), 2}};
  options.setsid = true;
  if (lifeline_fd_ >= 0) {
    options.argv.insert(options.argv.end(), {"--lifeline", "3"});
    options.fds.push_back({lifeline_fd_, 3});
  }
  absl::StatusOr<Subprocess> child = Subprocess::Spawn(options);
  if (!child.ok()) return Annotate(child.status(), "start rt-head");
  Millis deadline = SteadyClock() + kHeadStartMax;
  std::optional<ExitStatus> ended;
  while (!HeadIsAlive()) {
    if (ended.has_value()) SleepFor(kPoll);
    else ended = child->Wait(kPoll);
    // A head that a vanished client had just started holds the lock: that one will do.
    if (ended.has_value() && DirectoryLock::Acquire(head).ok()) {
      if (ended->ok()) return absl::CancelledError("rt-head was ended while it started");
      return WithHint(absl::InternalError(ToAbsl("rt-head ended: " + ToString(*ended))),
                      LastLines(head + "/log"));
    }
    if (SteadyClock() > deadline)
      return WithHint(absl::UnavailableError("rt-head did not come up"), LastLines(head + "/log"));
  }
  return absl::OkStatus();
}

std::vector<ProcessIdentity> LocalCluster::Daemons() const {
  std::vector<ProcessIdentity> alive;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    absl::StatusOr<ProcessIdentity> daemon = ReadPidFile(entry.path().string() + "/pid");
    if (daemon.ok()) alive.push_back(*daemon);
  }
  return alive;
}

// The sockets of workers that could not remove them themselves.
void LocalCluster::RemoveRuntimeDirs() const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error))
    if (const auto directory = FindRuntimeDir(entry.path().string()))
      RemoveTree(*directory).IgnoreError();
}

absl::Status LocalCluster::WaitGone(Millis wait_for) const {
  Millis deadline = SteadyClock() + wait_for;
  while (!Daemons().empty() && SteadyClock() < deadline) SleepFor(kPoll);
  // The head first: a living one would start its workers again.
  if (absl::StatusOr<ProcessIdentity> head = ReadPidFile(directory_ + "/head/pid"); head.ok())
    kill(head->pid, SIGKILL);
  for (const ProcessIdentity& daemon : Daemons()) kill(daemon.pid, SIGKILL);
  KillStrays(directory_);
  deadline = SteadyClock() + 5'000;
  while (!Daemons().empty()) {
    if (SteadyClock() > deadline)
      return absl::InternalError(ToAbsl("daemons below " + directory_ + " do not end"));
    SleepFor(kPoll);
  }
  RemoveRuntimeDirs();
  return absl::OkStatus();
}

}  // namespace rt
