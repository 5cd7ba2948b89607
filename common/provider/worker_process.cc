#include "common/provider/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "common/base/status.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Bytes kPidFileBytesMax = 4'096;
constexpr Bytes kCommandLineBytesMax = 1 << 20;

// Whether the process was started with this directory: for a worker whose head died between the
// start and the note of the start time.
bool NamesDirectory(pid_t pid, const std::string& directory) {
  auto line = ReadFile("/proc/" + std::to_string(pid) + "/cmdline", kCommandLineBytesMax);
  return line.ok() && line->find(std::string(1, '\0') + directory + '\0') != std::string::npos;
}

}  // namespace

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept
    : identity_(other.identity_), pid_fd_(std::exchange(other.pid_fd_, -1)) {}
WorkerProcess& WorkerProcess::operator=(WorkerProcess&& other) noexcept {
  std::swap(identity_, other.identity_);
  std::swap(pid_fd_, other.pid_fd_);
  return *this;
}
WorkerProcess::~WorkerProcess() {
  if (pid_fd_ >= 0) close(pid_fd_);
}

absl::StatusOr<WorkerProcess> WorkerProcess::Watch(const ProcessIdentity& identity) {
  WorkerProcess process;
  process.identity_ = identity;
  process.pid_fd_ = static_cast<int>(syscall(SYS_pidfd_open, identity.pid, 0));
  if (process.pid_fd_ < 0) return ErrnoStatus(errno, "pidfd_open");
  fcntl(process.pid_fd_, F_SETFD, FD_CLOEXEC);
  // The pid may have been used again before the descriptor was opened.
  if (!IsAlive(identity)) return NotFound("the worker is gone");
  return process;
}

absl::StatusOr<WorkerProcess> WorkerProcess::Spawn(const std::string& directory,
                                                   const std::vector<std::string>& argv) {
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int log = open((directory + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  SpawnOptions options{.argv = argv, .fds = {{null, 0}, {log, 1}, {log, 2}}, .setsid = true};
  options.cwd = directory;
  absl::StatusOr<Subprocess> child = null < 0 || log < 0
                                         ? ErrnoStatus(errno, "open " + directory + "/log")
                                         : Subprocess::Spawn(options);
  if (null >= 0) close(null);
  if (log >= 0) close(log);
  if (!child.ok()) return child.status();
  RT_ASSIGN_OR_RETURN(ProcessIdentity identity, ReadProcessIdentity(child->pid()));
  std::string pid = std::to_string(identity.pid);
  RT_RETURN_IF_ERROR(WriteFileAtomic(directory + "/pid", pid + "\n", {.sync = false}));
  RT_RETURN_IF_ERROR(WriteFileAtomic(directory + "/pid.start",
                                     pid + " " + std::to_string(identity.start_time) + "\n",
                                     {.sync = false}));
  // A child that died at once is seen by its descriptor like any other.
  WorkerProcess process;
  process.identity_ = identity;
  process.pid_fd_ = static_cast<int>(syscall(SYS_pidfd_open, identity.pid, 0));
  if (process.pid_fd_ < 0) return ErrnoStatus(errno, "pidfd_open");
  fcntl(process.pid_fd_, F_SETFD, FD_CLOEXEC);
  return process;
}

absl::StatusOr<WorkerProcess> WorkerProcess::Adopt(const std::string& directory) {
  RT_ASSIGN_OR_RETURN(std::string text, ReadFile(directory + "/pid", kPidFileBytesMax));
  pid_t pid = 0;
  std::istringstream(text) >> pid;
  if (pid <= 1) return NotFound("no pid in " + directory + "/pid");
  RT_ASSIGN_OR_RETURN(ProcessIdentity now, ReadProcessIdentity(pid));
  ProcessIdentity noted;
  if (auto start = ReadFile(directory + "/pid.start", kPidFileBytesMax); start.ok())
    std::istringstream(*start) >> noted.pid >> noted.start_time;
  if (noted != now && !NamesDirectory(pid, directory)) return NotFound("another process");
  return Watch(now);
}

void WorkerProcess::Kill(int signal) const {
  if (pid_fd_ >= 0) syscall(SYS_pidfd_send_signal, pid_fd_, signal, nullptr, 0);
}

void WorkerProcess::Reap() {
  siginfo_t info{};
  if (pid_fd_ >= 0) waitid(P_PIDFD, static_cast<id_t>(pid_fd_), &info, WEXITED | WNOHANG);
  if (pid_fd_ >= 0) close(std::exchange(pid_fd_, -1));
}

}  // namespace rt
