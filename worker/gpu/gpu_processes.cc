#include "worker/gpu/gpu_processes.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/strings.h"
#include "common/base/time.h"
#include "common/run/files.h"
#include "common/run/owned_fd.h"

namespace rt::worker {
namespace {

constexpr Bytes kEnvironmentMax = 1 << 20;
constexpr Bytes kNameMax = 64;

}  // namespace

std::string TokenIn(std::string_view environment) {
  constexpr std::string_view kToken = "RT_TOKEN=";
  while (!environment.empty()) {
    const std::string_view entry = environment.substr(0, environment.find('\0'));
    if (entry.starts_with(kToken)) return std::string(entry.substr(kToken.size()));
    environment.remove_prefix(std::min(environment.size(), entry.size() + 1));
  }
  return "";
}

std::string GpuProcesses::EnvironmentOf(uint64_t pid) const {
  auto text = ReadFile(proc_ + "/" + std::to_string(pid) + "/environ", kEnvironmentMax);
  return text.ok() ? *std::move(text) : "";
}

std::string GpuProcesses::NameOf(uint64_t pid) const {
  const auto name = ReadFile(proc_ + "/" + std::to_string(pid) + "/comm", kNameMax);
  return name.ok() ? std::string(Trim(*name)) : "";
}

void GpuProcesses::Read(const std::vector<GpuProcess>& processes) {
  for (const GpuProcess& process : processes) {
    Known& known = known_[process.pid];
    if (!known.token.empty()) continue;
    known.name = NameOf(process.pid);
    known.token = TokenIn(EnvironmentOf(process.pid));
  }
}

GpuProcesses::Known GpuProcesses::Of(uint64_t pid) const {
  const auto found = known_.find(pid);
  return found == known_.end() ? Known{} : found->second;
}

void GpuProcesses::KeepOnly(const std::set<uint64_t>& pids) {
  std::erase_if(known_, [&](const auto& one) { return !pids.contains(one.first); });
}

bool GpuProcesses::End(uint64_t pid, const std::string& token) {
  Known& known = known_[pid];
  if (known.is_ended || token.empty()) return false;
  const OwnedFd process(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
  if (process.get() < 0) return false;
  // Read after the pidfd was taken: if it is this one's, the pidfd is, too.
  const std::string environment = EnvironmentOf(pid);
  if (environment.empty()) return false;  // It is ending.
  const std::string now = TokenIn(environment);
  if (now != token) {
    known = {.name = NameOf(pid), .token = now};
    return false;
  }
  known.is_ended = ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0;
  return known.is_ended;
}

}  // namespace rt::worker
