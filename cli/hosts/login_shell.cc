#include "cli/hosts/login_shell.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/files.h"
#include "common/run/find_program.h"
#include "common/run/owned_fd.h"
#include "common/run/subprocess.h"

namespace rt {
namespace {

constexpr Millis kPauseBeforeRetry = 1'000;
constexpr Millis kLookEvery = 200;  // For a client that is gone.
constexpr int kTriesOfCommand = 2;
constexpr Bytes kEnvironmentMax = 8 << 20;
// An interactive shell reads ~/.bashrc only when it is no login shell.
constexpr char kReadRc[] = "if [ -r ~/.bashrc ]; then . ~/.bashrc; fi\n";

// Interactive, because the files of most people end early for other shells.
std::vector<std::string> ShellArgv(const std::string& command) {
  if (FindProgram("bash").ok())
    return {"bash", "--login", "-i", "-c", std::string(kReadRc) + command};
  return {"sh", "-l", "-c", command};
}

std::string HomeDirectory() {
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? home : "/";
}

std::optional<ExitStatus> WaitOrKill(Subprocess& process, Millis until,
                                     const std::function<bool()>& is_cancelled) {
  do {
    const Millis left = std::max<Millis>(until - SteadyClock(), 0);
    if (const auto exit = process.Wait(std::min(left, kLookEvery)); exit.has_value()) return exit;
  } while (SteadyClock() < until && !is_cancelled());
  process.Kill(SIGKILL, true).IgnoreError();
  process.Wait(-1);
  return std::nullopt;
}

bool IsOfSession(std::string_view name) {
  return name.starts_with("SSH_") || name == "_" || name == "SHLVL" || name == "PWD" ||
         name == "OLDPWD" || name == "PS1";
}

std::string EndOf(const std::string& file) {
  absl::StatusOr<std::string> text = ReadFile(file);
  if (!text.ok()) return "";
  const size_t first =
      text->size() > limits::kSetupTailMax ? text->size() - limits::kSetupTailMax : 0;
  return std::string(Trim(text->substr(first)));
}

// Empty when it succeeded.
absl::StatusOr<std::string> RunCommand(const std::string& command, int log, Millis until,
                                       const std::function<bool()>& is_cancelled) {
  const OwnedFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  SpawnOptions options{.argv = ShellArgv(command),
                       .cwd = HomeDirectory(),
                       .fds = {{null.get(), 0}, {log, 1}, {log, 2}},
                       .setsid = true};
  RT_ASSIGN_OR_RETURN(Subprocess shell, Subprocess::Spawn(options));
  const std::optional<ExitStatus> exit = WaitOrKill(shell, until, is_cancelled);
  if (!exit.has_value()) return std::string("took longer than all of them may, or was cancelled");
  return exit->ok() ? std::string() : "ended with " + ToString(*exit);
}

}  // namespace

void TakeLoginEnvironment() {
  for (const char* name : {"SSH_AUTH_SOCK", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY"})
    ::unsetenv(name);
  const OwnedFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const OwnedFd said(::memfd_create("environment", MFD_CLOEXEC));
  SpawnOptions options{.argv = ShellArgv("exec env -0 >&3"),
                       .cwd = HomeDirectory(),
                       .fds = {{null.get(), 0}, {null.get(), 1}, {null.get(), 2}, {said.get(), 3}},
                       .setsid = true};
  absl::StatusOr<Subprocess> shell = Subprocess::Spawn(options);
  if (!shell.ok()) return;
  const Millis until = SteadyClock() + limits::kLoginShellMax;
  if (!WaitOrKill(*shell, until, [] { return false; }).has_value()) return;
  absl::StatusOr<std::string> text =
      ReadFile("/proc/self/fd/" + std::to_string(said.get()), kEnvironmentMax);
  if (!text.ok()) return;
  for (const std::string& entry : Split(*text, '\0')) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = entry.substr(0, equals);
    if (!IsOfSession(name)) ::setenv(name.c_str(), entry.c_str() + equals + 1, 1);
  }
}

absl::StatusOr<SetupOutcome> RunSetup(const std::vector<std::string>& commands,
                                      const std::string& log_file,
                                      const std::function<bool()>& is_cancelled, Millis most) {
  const OwnedFd log(
      ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (log.get() < 0) return ErrnoStatus(errno, "open " + log_file);
  const Millis until = SteadyClock() + most;
  for (const std::string& command : commands) {
    std::string failed;
    for (int attempt = 0; attempt < kTriesOfCommand; ++attempt) {
      if (attempt > 0) SleepFor(kPauseBeforeRetry);
      RT_RETURN_IF_ERROR(WriteAll(log.get(), "$ " + command + "\n", log_file));
      RT_ASSIGN_OR_RETURN(failed, RunCommand(command, log.get(), until, is_cancelled));
      if (failed.empty() || SteadyClock() >= until || is_cancelled()) break;
    }
    if (!failed.empty())
      return SetupOutcome{"setup command '" + Excerpt(command) + "' " + failed, EndOf(log_file)};
  }
  return SetupOutcome{};
}

}  // namespace rt
