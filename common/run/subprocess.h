// Starting and watching processes, with argv vectors end to end: never a shell. A child gets
// exactly the descriptors that are listed (and 0, 1, 2), default signal actions and an empty
// signal mask. A Subprocess is used by one thread; its destructor neither waits nor kills.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"

namespace rt {

struct SpawnOptions {
  std::vector<std::string> argv;  // argv[0]: a path, or a name looked up in our PATH.
  std::optional<std::vector<std::string>> env;  // "KEY=value"; our own environment when absent.
  std::string cwd;                              // Ours when empty.
  std::vector<std::pair<int, int>> fds;         // {ours, the child's number}; 0, 1, 2 as well.
  bool setsid = false;                          // A session and process group of its own.
};

struct ExitStatus {
  int code = 0;    // Of exit(); 0 when a signal ended it.
  int signal = 0;  // 0 when it exited.
  bool ok() const { return code == 0 && signal == 0; }
};
std::string ToString(const ExitStatus& status);  // "exit code 1", "killed by signal 9 (Killed)"

class Subprocess {
 public:
  // An error when the program could not be executed (NotFound, PermissionDenied, …) or `cwd`
  // entered.
  static absl::StatusOr<Subprocess> Spawn(const SpawnOptions& options);
  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&& other) noexcept;
  ~Subprocess();

  pid_t pid() const { return pid_; }
  // The exit status; nullopt when it still runs after `wait_for` ms (0: asks; < 0: no limit).
  std::optional<ExitStatus> Wait(Millis wait_for);
  // OK also when it is gone already. `group`: its whole process group (with setsid).
  absl::Status Kill(int signal, bool group = false);

 private:
  Subprocess() = default;
  pid_t pid_ = -1;
  int pid_fd_ = -1;
  std::optional<ExitStatus> exit_;
};

// Runs a short program to its end: its exit status and its output (stdout and stderr together, at
// most `output_max` bytes kept). DeadlineExceeded after `wait_for` ms; it is then killed.
struct ProgramResult {
  ExitStatus exit;
  std::string output;
};
absl::StatusOr<ProgramResult> RunProgram(const SpawnOptions& options, std::string_view input,
                                         Millis wait_for, size_t output_max = 1u << 20);

// A process that a later run of a daemon can recognise: a pid may be used again, but not with the
// same start time (clock ticks since boot, field 22 of /proc/<pid>/stat).
struct ProcessIdentity {
  pid_t pid = 0;
  uint64_t start_time = 0;
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};
absl::StatusOr<ProcessIdentity> ReadProcessIdentity(pid_t pid);  // NotFound when there is none.
// Whether this very process exists and is not a zombie.
bool IsAlive(const ProcessIdentity& process);
// Whether the process has ended, or ends without running anything more: it exits, or was sent
// SIGKILL.
bool IsEnding(pid_t pid);

}  // namespace rt
