// rt-shim RUN_DIR: the parent of one launch. It outlives the worker daemon, is the subreaper of
// what it starts, owns the log files, and writes how it ended. Links no gRPC, protobuf or Abseil.
//
// Reads standard input: NUL-terminated fields: argc, argv…, envc, env…, cwd, log directory, bytes
// per log file, files kept. Writes RUN_DIR/shim, as worker/run/shim_file.h says, and one line with
// the identity of the user's process on standard output once exec succeeded. The end is written,
// and synced, after every descendant is dead and every byte of output is in the log files.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "worker/run/shim_log.h"

extern char** environ;

namespace rt::worker {
namespace {

struct Spec {
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string cwd;
  std::string log_directory;
  unsigned long long log_bytes_max = 0;
  size_t logs_kept = 1;
};
struct Ending {
  int exit_code = 0;
  int signal = 0;
  bool launch_failed = false;
  std::string reason;
};

bool ReadWhole(int fd, std::string& text) {
  char buffer[8192];
  ssize_t count = 0;
  while ((count = ::read(fd, buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<size_t>(count));
  }
  return count == 0;
}

bool ReadWhole(const std::string& path, std::string& text) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool whole = ReadWhole(fd, text);
  ::close(fd);
  return whole;
}

// Appends to the file that worker/run/shim_file.h describes, each call in one write.
class ShimRecord {
 public:
  explicit ShimRecord(const std::string& directory)
      : directory_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        file_(::openat(directory_, "shim", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}
  bool Write(const std::string& text) {
    return ::write(file_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  bool Sync() { return ::fsync(file_) == 0 && ::fsync(directory_) == 0; }

 private:
  int directory_;
  int file_;
};

bool ReadSpec(int fd, Spec& spec) {
  std::string text;
  if (!ReadWhole(fd, text)) return false;
  std::vector<std::string> fields;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\0', at);
    if (end == std::string::npos) return false;
    fields.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  size_t next = 0;
  auto list = [&](std::vector<std::string>& out) {
    if (next >= fields.size()) return false;
    size_t count = std::strtoull(fields[next++].c_str(), nullptr, 10);
    if (count > fields.size() - next) return false;
    for (size_t i = 0; i < count; ++i) out.push_back(fields[next++]);
    return true;
  };
  if (!list(spec.argv) || !list(spec.env) || fields.size() - next != 4) return false;
  if (spec.argv.empty()) return false;
  spec.cwd = fields[next];
  spec.log_directory = fields[next + 1];
  spec.log_bytes_max = std::strtoull(fields[next + 2].c_str(), nullptr, 10);
  spec.logs_kept = std::strtoull(fields[next + 3].c_str(), nullptr, 10);
  return true;
}

// "PID STARTTIME BOOT_ID\n": pids are reused, this triple is not.
std::string IdentityOf(pid_t pid) {
  std::string stat;
  std::string boot;
  ReadWhole("/proc/" + std::to_string(pid) + "/stat", stat);
  ReadWhole("/proc/sys/kernel/random/boot_id", boot);
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  size_t at = stat.rfind(')');
  std::string start = "0";
  if (at != std::string::npos) {
    // Field 22, counted from field 3, which follows the ") ".
    for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
    if (at != std::string::npos) start = stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
  }
  return std::to_string(pid) + " " + start + " " + boot + "\n";
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

struct Pipe {
  int read = -1;
  int write = -1;
  bool Open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read = ends[0];
    write = ends[1];
    return true;
  }
};

struct Failure {
  int error_number = 0;
  int step = 0;  // 1 chdir, 2 exec.
};

[[noreturn]] void RunChild(const Spec& spec, const Pipe& out, const Pipe& err, const Pipe& status) {
  auto argv = Pointers(spec.argv);
  auto env = Pointers(spec.env);
  ::setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, 0);
  ::dup2(out.write, 1);
  ::dup2(err.write, 2);
  Failure failure;
  if (::chdir(spec.cwd.c_str()) != 0) {
    failure = {errno, 1};
  } else {
    environ = env.data();
    ::execvp(argv[0], argv.data());
    failure = {errno, 2};
  }
  ssize_t ignored = ::write(status.write, &failure, sizeof failure);
  (void)ignored;
  ::_exit(127);
}

// The direct children of this process, which has one thread.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  std::string text;
  const std::string self = std::to_string(::getpid());
  if (ReadWhole("/proc/self/task/" + self + "/children", text)) {
    for (char* at = text.data(); *at != 0;) {
      char* end = nullptr;
      long pid = std::strtol(at, &end, 10);
      if (end == at) break;
      children.push_back(static_cast<pid_t>(pid));
      at = *end == 0 ? end : end + 1;
    }
    return children;
  }
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return children;
  while (dirent* entry = ::readdir(proc)) {
    pid_t pid = std::atoi(entry->d_name);
    std::string stat;
    if (pid <= 0 || !ReadWhole("/proc/" + std::to_string(pid) + "/stat", stat)) continue;
    size_t at = stat.rfind(')');
    if (at != std::string::npos && at + 4 < stat.size() &&
        std::atoi(stat.c_str() + at + 4) == ::getpid()) {
      children.push_back(pid);
    }
  }
  ::closedir(proc);
  return children;
}

// Descendants become our children as their parents die, so killing children until there are none
// ends all of them. Bounded: a process in the kernel's D state cannot be waited for.
void KillDescendants() {
  for (int round = 0; round < 10'000; ++round) {
    for (pid_t child : Children()) ::kill(child, SIGKILL);
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return;
    ::usleep(1'000);
  }
}

// Copies what is there; false at the end of the stream.
bool Copy(int fd, SegmentedLog& log) {
  char buffer[65536];
  for (int round = 0; round < 64; ++round) {
    ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count > 0) {
      log.Write(buffer, static_cast<size_t>(count));
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    return count < 0 && errno == EAGAIN;
  }
  return true;
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
  KillDescendants();
  Copy(out, out_log);  // 64 rounds of 64 KiB: more than a pipe holds.
  Copy(err, err_log);
  return status;
}

Ending LaunchFailed(const std::string& reason) { return {127, 0, true, reason}; }

Ending Run(ShimRecord& record, const Spec& spec, int signals) {
  Pipe out;
  Pipe err;
  Pipe status;
  if (!out.Open() || !err.Open() || !status.Open()) return LaunchFailed(std::strerror(errno));
  pid_t child = ::fork();
  if (child < 0) return LaunchFailed(std::string("fork: ") + std::strerror(errno));
  if (child == 0) RunChild(spec, out, err, status);
  ::close(out.write);
  ::close(err.write);
  ::close(status.write);
  Failure failure;
  if (::read(status.read, &failure, sizeof failure) == sizeof failure) {
    ::waitpid(child, nullptr, 0);
    const char* why = std::strerror(failure.error_number);
    if (failure.step == 1) return LaunchFailed("working directory " + spec.cwd + ": " + why);
    return LaunchFailed((failure.error_number == ENOENT ? "program not found: " : "cannot run ") +
                        spec.argv[0] + ": " + why);
  }
  std::string identity = IdentityOf(child);
  record.Write("program " + identity);
  ssize_t ignored = ::write(1, identity.data(), identity.size());
  (void)ignored;
  int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(null, 1);
  int ended = Supervise(child, signals, out.read, err.read, spec);
  Ending ending;
  if (WIFSIGNALED(ended)) ending.signal = WTERMSIG(ended);
  if (WIFEXITED(ended)) ending.exit_code = WEXITSTATUS(ended);
  return ending;
}

}  // namespace

int ShimMain(const std::string& directory) {
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::syscall(SYS_close_range, 3u, ~0u, 0u);
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t mask;
  sigemptyset(&mask);
  for (int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&mask, number);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  int signals = ::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  ShimRecord record(directory);
  if (!record.Write("shim " + IdentityOf(::getpid()))) return 1;
  Spec spec;
  Ending ending = ReadSpec(STDIN_FILENO, spec) ? Run(record, spec, signals)
                                               : LaunchFailed("unreadable launch spec");
  for (char& letter : ending.reason) {
    if (letter == '\n') letter = ' ';
  }
  const std::string text = "exit_code " + std::to_string(ending.exit_code) + "\nsignal " +
                           std::to_string(ending.signal) + "\nlaunch_failed " +
                           (ending.launch_failed ? "1" : "0") + "\nreason " + ending.reason +
                           "\nended\n";
  return record.Write(text) && record.Sync() ? 0 : 1;
}

}  // namespace rt::worker

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: rt-shim RUN_DIR (started by rt-worker)\n");
    return 2;
  }
  return rt::worker::ShimMain(argv[1]);
}
