#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "common/base/status.h"
#include "common/run/files.h"
#include "common/run/owned_fd.h"
#include "common/run/subprocess.h"

namespace rt {
namespace {

using Clock = std::chrono::steady_clock;

// A process that waits in a driver that hangs dies when the driver lets it, which may be never.
constexpr Millis kDieMax = 2'000;
constexpr size_t kPipeBytesMax = 1 << 20;  // No pipe here holds more: the default bound of Linux.

// The program's standard input, whole: no pipe that could block or break.
absl::Status FillInput(int fd, std::string_view input) {
  RT_RETURN_IF_ERROR(WriteAll(fd, input, "a program's input"));
  return ::lseek(fd, 0, SEEK_SET) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "rewind input");
}

// Reads at most what a pipe holds, so that the caller looks at its deadline while a program writes
// without end. False at the end of the output.
bool ReadSome(int fd, std::string& output, size_t output_max) {
  char buffer[16'384];
  for (size_t read = 0; read < kPipeBytesMax; read += sizeof buffer) {
    ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    output.append(buffer, std::min(static_cast<size_t>(got), output_max - output.size()));
  }
  return true;
}

}  // namespace

absl::StatusOr<ProgramResult> RunProgram(const SpawnOptions& options, std::string_view input,
                                         Millis wait_for, size_t output_max) {
  OwnedFd stdin_file(::memfd_create("input", MFD_CLOEXEC));
  if (stdin_file.get() < 0) return ErrnoStatus(errno, "memfd_create");
  RT_RETURN_IF_ERROR(FillInput(stdin_file.get(), input));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  OwnedFd read_end(ends[0]), write_end(ends[1]);
  ::fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  SpawnOptions spawn = options;
  spawn.fds.insert(spawn.fds.end(),
                   {{stdin_file.get(), 0}, {write_end.get(), 1}, {write_end.get(), 2}});
  RT_ASSIGN_OR_RETURN(Subprocess process, Subprocess::Spawn(spawn));
  write_end.Reset();

  const auto deadline = Clock::now() + std::chrono::milliseconds(wait_for);
  auto left = [&] {
    return std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  };
  ProgramResult result;
  // A grandchild may keep the pipe open for ever: the program's own end is what we wait for.
  constexpr int64_t kLookEvery = 20;
  std::optional<ExitStatus> exit;
  while (!exit.has_value() && left() > 0) {
    pollfd poll_fd{.fd = read_end.get(), .events = POLLIN, .revents = 0};
    ::poll(&poll_fd, 1, static_cast<int>(std::min<int64_t>(left(), kLookEvery)));
    bool more = ReadSome(read_end.get(), result.output, output_max);
    exit = process.Wait(more ? 0 : std::max<int64_t>(left(), 0));
  }
  if (!exit.has_value()) {
    (void)process.Kill(SIGKILL, options.setsid);
    process.Wait(kDieMax);
    return absl::DeadlineExceededError(ToAbsl(options.argv[0] + " did not end within " +
                                              std::to_string(wait_for) + " ms"));
  }
  ReadSome(read_end.get(), result.output, output_max);
  result.exit = *exit;
  return result;
}

}  // namespace rt
