// rt-shim RUN_DIR: the parent of one launch. It outlives the worker daemon, is the subreaper of
// what it starts, owns the log files, and writes how it ended. Links no gRPC, protobuf or Abseil.
// (--group RUN_DIR SOCKET: the same for a warm-start server, worker/shim/shim_group.h; --nursery
// STATE_DIR: forks shims, worker/shim/fork_shims.h.)
//
// Reads standard input: NUL-terminated fields: argc, argv…, envc, env…, cwd, log directory, bytes
// per log file, files kept, cgroup (or nothing). Writes RUN_DIR/shim, as worker/launch/shim_file.h
// says, and one line with the identity of the user's process on standard output once exec
// succeeded. The end is written after every descendant is dead and every byte of output is in the
// log files.
#include <poll.h>
#include <sys/signalfd.h>

#include "common/run/open_files.h"
#include "worker/shim/fork_shims.h"
#include "worker/shim/shim_group.h"
#include "worker/shim/shim_process.h"

namespace rt::worker {
namespace {

// Descendants become our children as their parents die, so killing children until there are none
// ends all of them. Bounded: a process in the kernel's D state cannot be waited for.
void KillDescendants(const std::string& cgroup) {
  if (!cgroup.empty() && !Children().empty()) Put(cgroup + "/cgroup.kill", "1");
  for (int round = 0; round < 10'000; ++round) {
    for (pid_t child : Children()) ::kill(child, SIGKILL);
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return;
    ::usleep(1'000);
  }
}

// Reaps; true once `child` is among the dead.
bool Reap(pid_t child, int& status) {
  bool ended = false;
  int one = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &one, WNOHANG)) > 0;) {
    if (pid != child) continue;
    status = one;
    ended = true;
  }
  return ended;
}

int Supervise(pid_t child, int signals, int out, int err, const Spec& spec) {
  SegmentedLog out_log(spec.log_directory, "stdout", spec.log_bytes_max, spec.logs_kept);
  SegmentedLog err_log(spec.log_directory, "stderr", spec.log_bytes_max, spec.logs_kept);
  ::fcntl(out, F_SETFL, O_NONBLOCK);
  ::fcntl(err, F_SETFL, O_NONBLOCK);
  pollfd fds[3] = {{out, POLLIN, 0}, {err, POLLIN, 0}, {signals, POLLIN, 0}};
  int status = 0;
  for (bool ended = false; !ended;) {
    if (::poll(fds, 3, -1) < 0) continue;
    if (fds[0].revents != 0 && !Copy(out, out_log)) fds[0].fd = -1;
    if (fds[1].revents != 0 && !Copy(err, err_log)) fds[1].fd = -1;
    if (fds[2].revents != 0) {
      signalfd_siginfo info[8];
      ssize_t ignored = ::read(signals, info, sizeof info);
      (void)ignored;
      ended = Reap(child, status);
    }
  }
  KillDescendants(spec.cgroup);
  Copy(out, out_log);  // 64 rounds of 64 KiB: more than a pipe holds.
  Copy(err, err_log);
  return status;
}

Ending Run(ShimRecord& record, const Spec& spec, int signals) {
  Pipe out;
  Pipe err;
  Pipe status;
  int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (!out.Open() || !err.Open() || !status.Open()) return LaunchFailed(std::strerror(errno));
  const Program program(spec);
  const std::vector<int> fds = {null, out.write, err.write};
  // A child that only prepares its exec needs no memory of its own.
  const pid_t child = spec.cgroup.empty() ? ::vfork() : ForkInto(spec.cgroup, status.write);
  if (child < 0) return LaunchFailed(std::string("fork: ") + std::strerror(errno));
  if (child == 0) RunChild(program, fds, status.write);
  ::close(out.write);
  ::close(err.write);
  ::close(status.write);
  StartFailure failure;
  if (::read(status.read, &failure, sizeof failure) == sizeof failure) {
    ::waitpid(child, nullptr, 0);
    return LaunchFailed(ToString(failure, spec));
  }
  std::string identity = IdentityOf(child);
  record.Write("program " + identity);
  ssize_t ignored = ::write(1, identity.data(), identity.size());
  (void)ignored;
  ::dup2(null, 1);
  return EndingOf(Supervise(child, signals, out.read, err.read, spec));
}

}  // namespace

int ShimMain(const std::string& directory, const std::string& group_socket) {
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const bool group = !group_socket.empty();
  if (!group) ::syscall(SYS_close_range, 3u, kLaunchLock - 1u, 0u);
  ::syscall(SYS_close_range, kLaunchLock + 1u, ~0u, 0u);
  // From a daemon of an earlier release the group has none, and closes this instead.
  if (group && ::fcntl(kLaunchLock, F_GETFD) < 0) ::dup2(STDOUT_FILENO, kLaunchLock);
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t mask;
  sigemptyset(&mask);
  for (int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&mask, number);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  int signals = ::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  Spec spec;
  if (group) return ReadSpec(STDIN_FILENO, spec) ? RunGroup(spec, group_socket, signals) : 1;
  ShimRecord record(directory);
  if (!record.Write("shim " + IdentityOf(::getpid()))) return 1;
  ::close(kLaunchLock);
  return record.WriteEnd(ReadSpec(STDIN_FILENO, spec) ? Run(record, spec, signals)
                                                      : LaunchFailed("unreadable launch spec"))
             ? 0
             : 1;
}

}  // namespace rt::worker

int main(int argc, char** argv) {
  const bool group = argc == 4 && std::strcmp(argv[1], "--group") == 0;
  const bool forker = argc == 4 && std::strcmp(argv[1], "--nursery") == 0;
  if ((argc != 2 || argv[1][0] == '-') && !group && !forker) {
    std::fprintf(stderr,
                 "rt-shim is the parent of one program of a trial or job. rt-worker starts it.\n");
    return 2;
  }
  rt::GiveBackOpenFiles();
  if (forker) {
    const std::string directory = rt::worker::ForkShims(argc, argv);
    return directory.empty() ? 0 : rt::worker::ShimMain(directory, "");
  }
  return group ? rt::worker::ShimMain(argv[2], argv[3]) : rt::worker::ShimMain(argv[1], "");
}
