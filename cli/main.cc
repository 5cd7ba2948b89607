// `rt`: reads the command line, runs one verb, prints its error.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "cli/hosts/agent.h"
#include "cli/hosts/head_keeper.h"
#include "cli/hosts/machine.h"
#include "cli/line/command_line.h"
#include "cli/render/error.h"
#include "cli/teardown.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/run/failpoint.h"

namespace rt {
namespace {

// A standard descriptor that is closed would be given to the next file that is opened.
void HoldStandardDescriptors() {
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) _exit(kExitFailed);
}

// Flushes standard output: a failure to print is a failure of the command.
int AfterOutput(int code) {
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout.flush();
  if (!lost) return code;
  const std::string why = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  std::fprintf(stderr, "rt: standard output could not be written%s\n", why.c_str());
  return code == kExitOk ? kExitFailed : code;
}

int Main(const std::vector<std::string>& words) {
  HoldStandardDescriptors();
  PrepareGrpc();
  if (words.size() == 3 && words[0] == "__teardown") return RunWatcher(words[1], words[2]);
  SetLogLevel(LogLevel::kWarning);
  if (const absl::Status armed = ArmFailpointsFromEnvironment("client"); !armed.ok()) {
    std::fprintf(stderr, "rt: %s\n", MessageOf(armed).c_str());
    return kExitUsage;
  }
  if (words.size() == 2 && words[0] == "__host") return RunAgent(words[1]);
  if (words.size() >= 2 && words[0] == "__machine")
    return BecomeWorker({words.begin() + 1, words.end()});
  if (!words.empty() && words[0] == "__keep-head")
    return KeepHead({words.begin() + 1, words.end()});
  CommandLine line;
  if (!words.empty() && words[0] == "__complete") {
    for (const std::string& word : line.Complete({words.begin() + 1, words.end()}))
      std::puts(word.c_str());
    return kExitOk;
  }
  if (words.size() == 2 && words[0] == "__man") {
    absl::Status written = line.WriteManuals(words[1]);
    if (!written.ok()) std::fputs(RenderError(written, line.invocation()).c_str(), stderr);
    return ExitCodeOf(written);
  }
  int code = kExitOk;
  absl::StatusOr<Verb> verb = line.Parse(words, code);
  if (verb.ok() && *verb == nullptr) return AfterOutput(code);
  ExitCode outcome = verb.ok() ? (*verb)(line.invocation()) : ExitCode(verb.status());
  if (outcome.ok()) return AfterOutput(*outcome);
  std::fputs(RenderError(outcome.status(), line.invocation()).c_str(), stderr);
  return ExitCodeOf(outcome.status());
}

}  // namespace
}  // namespace rt

int main(int argc, char** argv) {
  return rt::Main(std::vector<std::string>(argv + 1, argv + argc));
}
