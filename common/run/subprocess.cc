#include "common/run/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <set>

#include "common/base/check.h"
#include "common/base/status.h"

namespace rt {
namespace {

using Clock = std::chrono::steady_clock;

// What posix_spawn needs, released together.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
    for (int fd : duplicates_) ::close(fd);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  // Our descriptors are first duplicated above every number of the child's, so that no dup2
  // overwrites the source of a later one; whatever is not listed is closed.
  absl::Status MapDescriptors(const std::vector<std::pair<int, int>>& fds) {
    int highest = STDERR_FILENO;
    std::set<int> mapped;
    for (const auto& [ours, theirs] : fds) {
      highest = std::max(highest, theirs);
      if (!mapped.insert(theirs).second)
        return Invalid("descriptor " + std::to_string(theirs) + " is given twice");
    }
    for (const auto& [ours, theirs] : fds) {
      int duplicate = ::fcntl(ours, F_DUPFD_CLOEXEC, highest + 1);
      if (duplicate < 0) return ErrnoStatus(errno, "duplicate descriptor " + std::to_string(ours));
      duplicates_.push_back(duplicate);
      posix_spawn_file_actions_adddup2(&actions_, duplicate, theirs);
    }
    for (int fd = STDERR_FILENO + 1; fd <= highest; ++fd)
      if (!mapped.contains(fd)) posix_spawn_file_actions_addclose(&actions_, fd);
    posix_spawn_file_actions_addclosefrom_np(&actions_, highest + 1);
    return absl::OkStatus();
  }

  void ResetSignals(bool setsid) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (setsid) flags |= POSIX_SPAWN_SETSID;
    posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
  }

  posix_spawn_file_actions_t* actions() { return &actions_; }
  posix_spawnattr_t* attributes() { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  std::vector<int> duplicates_;
};

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

bool HasNul(const std::vector<std::string>& texts) {
  return std::any_of(texts.begin(), texts.end(), [](const std::string& text) {
    return text.find('\0') != std::string::npos;
  });
}

}  // namespace

std::string ToString(const ExitStatus& status) {
  if (status.signal == 0) return "exit code " + std::to_string(status.code);
  return "killed by signal " + std::to_string(status.signal) + " (" + ::strsignal(status.signal) +
         ")";
}

absl::StatusOr<Subprocess> Subprocess::Spawn(const SpawnOptions& options) {
  if (options.argv.empty() || options.argv[0].empty()) return Invalid("a program without a name");
  if (HasNul(options.argv) || (options.env.has_value() && HasNul(*options.env)))
    return Invalid("an argument or variable of " + options.argv[0] + " holds a NUL");
  SpawnPlan plan;
  if (!options.cwd.empty())
    posix_spawn_file_actions_addchdir_np(plan.actions(), options.cwd.c_str());
  RT_RETURN_IF_ERROR(plan.MapDescriptors(options.fds));
  plan.ResetSignals(options.setsid);
  std::vector<char*> argv = Pointers(options.argv);
  std::vector<char*> env;
  if (options.env.has_value()) env = Pointers(*options.env);
  pid_t pid = -1;
  int error = ::posix_spawnp(&pid, argv[0], plan.actions(), plan.attributes(), argv.data(),
                             options.env.has_value() ? env.data() : environ);
  if (error != 0) {
    std::string what = "start " + options.argv[0];
    if (!options.cwd.empty()) what += " in " + options.cwd;
    return ErrnoStatus(error, what);
  }
  Subprocess process;
  process.pid_ = pid;
  // Nobody else reaps our child: the pid is still its own. (glibc 2.36 lacks a C++ declaration.)
  process.pid_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  return process;
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pid_fd_(std::exchange(other.pid_fd_, -1)),
      exit_(other.exit_) {}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pid_fd_, other.pid_fd_);
  std::swap(exit_, other.exit_);
  return *this;
}

Subprocess::~Subprocess() {
  if (pid_fd_ >= 0) ::close(pid_fd_);
}

std::optional<ExitStatus> Subprocess::Wait(Millis wait_for) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(wait_for);
  while (!exit_.has_value()) {
    int status = 0;
    pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
    if (reaped == pid_) {
      exit_ = WIFSIGNALED(status) ? ExitStatus{.signal = WTERMSIG(status)}
                                  : ExitStatus{.code = WEXITSTATUS(status)};
      break;
    }
    RT_CHECK_BECAUSE(reaped == 0 || errno == EINTR, "another part of the program reaped our child");
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (wait_for >= 0 && left <= 0) return std::nullopt;
    // Without pidfd (an old kernel) we look again every few milliseconds.
    int pause = static_cast<int>(wait_for < 0 ? 10'000 : std::min<int64_t>(left, 10'000));
    pollfd poll_fd{.fd = pid_fd_, .events = POLLIN, .revents = 0};
    ::poll(&poll_fd, pid_fd_ >= 0 ? 1 : 0, pid_fd_ >= 0 ? pause : std::min(pause, 5));
  }
  return exit_;
}

absl::Status Subprocess::Kill(int signal, bool group) {
  // A group may outlive its reaped leader; the pid alone may by then be somebody else's.
  if (exit_.has_value() && !group) return absl::OkStatus();
  if (::kill(group ? -pid_ : pid_, signal) == 0 || errno == ESRCH) return absl::OkStatus();
  return ErrnoStatus(errno, "signal process " + std::to_string(pid_));
}

}  // namespace rt
