// What both kinds of rt-shim need: reading its launch spec, /proc, the file that it writes
// (worker/launch/shim_file.h), and starting a program. One thread; no Abseil here: part of rt-shim.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "worker/shim/shim_log.h"

extern char** environ;

namespace rt::worker {

struct Spec {
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string cwd;
  std::string log_directory;
  unsigned long long log_bytes_max = 0;
  size_t logs_kept = 1;
  std::string cgroup;  // The directory of one to run in; may be empty.
};
struct Ending {
  int exit_code = 0;
  int signal = 0;
  bool launch_failed = false;
  std::string reason;
};

inline bool ReadWhole(int fd, std::string& text) {
  char buffer[8192];
  ssize_t count = 0;
  while ((count = ::read(fd, buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<size_t>(count));
  }
  return count == 0;
}

inline bool ReadWhole(const std::string& path, std::string& text) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool whole = ReadWhole(fd, text);
  ::close(fd);
  return whole;
}

// The NUL-terminated fields of a text; what follows the last NUL is dropped.
inline std::vector<std::string> FieldsOf(const std::string& text) {
  std::vector<std::string> fields;
  size_t at = 0;
  for (size_t end = 0; (end = text.find('\0', at)) != std::string::npos; at = end + 1) {
    fields.push_back(text.substr(at, end - at));
  }
  return fields;
}

inline bool ReadSpec(int fd, Spec& spec) {
  std::string text;
  if (!ReadWhole(fd, text) || text.empty() || text.back() != '\0') return false;
  const std::vector<std::string> fields = FieldsOf(text);
  size_t next = 0;
  auto list = [&](std::vector<std::string>& out) {
    if (next >= fields.size()) return false;
    size_t count = std::strtoull(fields[next++].c_str(), nullptr, 10);
    if (count > fields.size() - next) return false;
    for (size_t i = 0; i < count; ++i) out.push_back(fields[next++]);
    return true;
  };
  if (!list(spec.argv) || !list(spec.env) || fields.size() - next != 5) return false;
  if (spec.argv.empty()) return false;
  spec.cwd = fields[next];
  spec.log_directory = fields[next + 1];
  spec.log_bytes_max = std::strtoull(fields[next + 2].c_str(), nullptr, 10);
  spec.logs_kept = std::strtoull(fields[next + 3].c_str(), nullptr, 10);
  spec.cgroup = fields[next + 4];
  return true;
}

// Field `wanted` (from 3: the state) of /proc/<pid>/stat; "" when there is no such process.
inline std::string StatField(pid_t pid, int wanted) {
  std::string stat;
  if (!ReadWhole("/proc/" + std::to_string(pid) + "/stat", stat)) return "";
  size_t at = stat.rfind(')');
  for (int field = 2; field < wanted && at != std::string::npos; ++field) {
    at = stat.find(' ', at + 1);
  }
  if (at == std::string::npos) return "";
  return stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

inline std::string BootId() {
  std::string boot;
  ReadWhole("/proc/sys/kernel/random/boot_id", boot);
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  return boot;
}

// "PID STARTTIME BOOT_ID\n": pids are reused, this triple is not.
inline std::string IdentityOf(pid_t pid) {
  const std::string start = StatField(pid, 22);
  return std::to_string(pid) + " " + (start.empty() ? "0" : start) + " " + BootId() + "\n";
}

// The direct children of this process, which has one thread.
inline std::vector<pid_t> Children() {
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
    if (pid > 0 && StatField(pid, 4) == self) children.push_back(pid);
  }
  ::closedir(proc);
  return children;
}

// Appends to the file that worker/launch/shim_file.h describes, each call in one write.
class ShimRecord {
 public:
  explicit ShimRecord(const std::string& directory)
      : file_(::open((directory + "/shim").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                     0600)) {}
  ~ShimRecord() { ::close(file_); }
  ShimRecord(const ShimRecord&) = delete;
  ShimRecord& operator=(const ShimRecord&) = delete;

  bool Write(const std::string& text) {
    return ::write(file_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  // The last thing that a shim does for a launch. It outlives every process; when the machine goes
  // down, what ran there is lost with it (shim_file.h), so that nothing waits for the disk here.
  bool WriteEnd(Ending ending) {
    for (char& letter : ending.reason) {
      if (letter == '\n') letter = ' ';
    }
    return Write("exit_code " + std::to_string(ending.exit_code) + "\nsignal " +
                 std::to_string(ending.signal) + "\nlaunch_failed " +
                 (ending.launch_failed ? "1" : "0") + "\nreason " + ending.reason + "\nended\n");
  }

 private:
  int file_;
};

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

// Copies what is there; false at the end of the stream.
template <class Sink>
bool Copy(int fd, Sink& sink) {
  char buffer[65536];
  for (int round = 0; round < 64; ++round) {
    ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count > 0) {
      sink.Write(buffer, static_cast<size_t>(count));
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    return count < 0 && errno == EAGAIN;
  }
  return true;
}

inline Ending EndingOf(int status) {
  Ending ending;
  if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
  if (WIFEXITED(status)) ending.exit_code = WEXITSTATUS(status);
  return ending;
}
inline Ending LaunchFailed(const std::string& reason) { return {127, 0, true, reason}; }

// One write, as the files of cgroups want it.
inline bool Put(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return whole;
}

struct StartFailure {
  int error_number = 0;
  int step = 0;  // 1 chdir, 2 exec, 3 joining the cgroup.
};

// A fork whose child begins in the cgroup: joining one later makes the kernel wait for every core.
// Where that is not possible the child joins it itself, or ends with 127 and says so on `status`.
inline pid_t ForkInto(const std::string& cgroup, int status) {
  const int fd = ::open(cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  pid_t child = -1;
  if (fd >= 0) {
    clone_args arguments{};
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = SIGCHLD;
    arguments.cgroup = static_cast<unsigned long long>(fd);
    child = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
    if (child != 0) ::close(fd);
  }
  if (child >= 0) return child;
  child = ::fork();
  if (child != 0 || Put(cgroup + "/cgroup.procs", "0")) return child;
  const StartFailure failure{errno, 3};
  ssize_t ignored = ::write(status, &failure, sizeof failure);
  (void)ignored;
  ::_exit(127);
}

// The interpreter that the first line of a script asks for; "" when it asks for none.
inline std::string InterpreterOf(const std::string& script) {
  char line[256];
  const int fd = ::open(script.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t count = fd < 0 ? 0 : ::read(fd, line, sizeof line);
  if (fd >= 0) ::close(fd);
  const std::string text(line, count > 0 ? static_cast<size_t>(count) : 0);
  if (text.compare(0, 2, "#!") != 0) return "";
  const size_t from = text.find_first_not_of(" \t", 2);
  const size_t to = text.find_first_of(" \t\r\n", from);
  return from == std::string::npos || to == from ? "" : text.substr(from, to - from);
}

inline std::string ToString(const StartFailure& failure, const Spec& spec) {
  const char* why = std::strerror(failure.error_number);
  if (failure.step == 1) return "working directory " + spec.cwd + ": " + why;
  if (failure.step == 3) return "cgroup " + spec.cgroup + ": " + why;
  const std::string& program = spec.argv[0];
  const std::string path = program[0] == '/' ? program : spec.cwd + "/" + program;
  // What exec does not find may be what the file asks for, not the file.
  if (failure.error_number == ENOENT && ::access(path.c_str(), F_OK) == 0) {
    const std::string interpreter = InterpreterOf(path);
    return "program not found: " + (interpreter.empty() ? "the loader" : interpreter) +
           ", the interpreter of " + program;
  }
  return (failure.error_number == ENOENT ? "program not found: " : "cannot run ") + program + ": " +
         why;
}

// What exec takes, made before the fork: a child of vfork must not allocate in its parent.
struct Program {
  explicit Program(const Spec& spec)
      : cwd(spec.cwd), argv(Pointers(spec.argv)), env(Pointers(spec.env)) {}
  static std::vector<char*> Pointers(const std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
    list.push_back(nullptr);
    return list;
  }
  const std::string& cwd;
  std::vector<char*> argv;
  std::vector<char*> env;
};

// The child after fork: a session of its own, default signals, `fds` as its 0, 1, 2 and so on.
// Tells `status` when it cannot exec.
[[noreturn]] inline void RunChild(const Program& program, const std::vector<int>& fds, int status) {
  ::setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  int number = 0;
  for (int fd : fds) {  // Ours lie above them: rt-shim opens what it needs after its own 0 to 4.
    if (fd == number) ::fcntl(fd, F_SETFD, 0);
    ::dup2(fd, number++);
  }
  StartFailure failure;
  if (::chdir(program.cwd.c_str()) != 0) {
    failure = {errno, 1};
  } else {
    environ = const_cast<char**>(program.env.data());
    ::execvp(program.argv[0], program.argv.data());
    failure = {errno, 2};
  }
  ssize_t ignored = ::write(status, &failure, sizeof failure);
  (void)ignored;
  ::_exit(127);
}

}  // namespace rt::worker
