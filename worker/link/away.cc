#include "worker/link/away.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/run/subprocess.h"

namespace rt::worker {
namespace {

constexpr Millis kAskFor = 1'000;
constexpr size_t kStateBytesMax = 4'096;

// What `systemctl is-system-running` says; nullopt where there is no systemd. The worker's unit
// (deploy/systemd) asks as root before it stops the daemon: everybody else needs a message bus.
std::optional<std::string> MachineState() {
  if (const char* folder = std::getenv("RUNTIME_DIRECTORY")) {
    auto noted = ReadFile(std::string(folder) + "/machine", kStateBytesMax);
    if (noted.ok()) return std::string(Trim(*noted));
  }
  if (!Exists("/run/systemd/system")) return std::nullopt;
  const auto asked =
      RunProgram({.argv = {"systemctl", "is-system-running"}}, "", kAskFor, kStateBytesMax);
  if (asked.ok()) return std::string(Trim(asked->output));
  RT_LOG(kWarning) << "systemctl is-system-running: " << MessageOf(asked.status());
  return "";
}

}  // namespace

bool StaysUp(const std::string& state) {
  return state == "running" || state == "degraded" || state == "starting" ||
         state == "initializing" || state == "maintenance";
}

Millis AwayFor(int signal, Millis flag) {
  if (signal != SIGTERM || flag == 0 || ::getpid() == 1) return 0;
  const std::optional<std::string> state = MachineState();
  if (!state || StaysUp(*state)) return flag;
  RT_LOG(kInfo) << "no return is announced: systemd says that the machine is '"
                << EscapeControl(*state) << "'";
  return 0;
}

}  // namespace rt::worker
