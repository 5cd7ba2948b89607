#include "worker/limits/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "common/base/rng.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/spec/resources.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr int kRemoveTries = 100;
constexpr int kRemovePauseUs = 1'000;
constexpr char kOwnGroup[] = "/rt-daemon";  // For this process, where its own has to be empty.
constexpr int64_t kCpuPeriodUs = 100'000;
constexpr int64_t kCpuQuotaLeastUs = 1'000;  // The kernel's.

// "" when there is none: the line's fields are "ID PARENT DEV ROOT MOUNT OPTIONS … - TYPE …".
std::string FindMount() {
  auto text = ReadFile("/proc/self/mountinfo", 4 << 20);
  if (!text.ok()) return "";
  for (const std::string& line : Split(*text, '\n')) {
    if (line.find(" - cgroup2 ") == std::string::npos) continue;
    const std::vector<std::string> fields = Split(line, ' ');
    if (fields.size() > 4) return fields[4];
  }
  return "";
}

// The path of this process's group below the mount.
std::string FindOwn() {
  auto text = ReadFile("/proc/self/cgroup", 1 << 20);
  if (!text.ok()) return "";
  for (const std::string& line : Split(*text, '\n')) {
    if (line.starts_with("0::")) return line == "0::/" ? "" : line.substr(3);
  }
  return "";
}

// These files take one write each.
bool Put(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return whole;
}

bool HasWord(const std::string& path, const std::string& word) {
  auto text = ReadFile(path, 1 << 20);
  if (!text.ok()) return false;
  std::istringstream words(*text);
  for (std::string one; words >> one;) {
    if (one == word) return true;
  }
  return false;
}

// Gives `group`'s children a controller. A group with processes of its own cannot have any: one
// that is ours alone (a systemd unit with Delegate=yes) makes room by a child for this daemon.
bool Enable(const std::string& group, const std::string& controller) {
  if (HasWord(group + "/cgroup.subtree_control", controller)) return true;
  if (!HasWord(group + "/cgroup.controllers", controller)) return false;
  if (Put(group + "/cgroup.subtree_control", "+" + controller)) return true;
  const bool is_busy = errno == EBUSY;
  auto members = ReadFile(group + "/cgroup.procs", 1 << 20);
  const std::string self = std::to_string(::getpid());
  if (!is_busy || !members.ok() || Trim(*members) != self) return false;
  const std::string own = group + kOwnGroup;
  const bool there = ::mkdir(own.c_str(), 0755) == 0 || errno == EEXIST;
  return there && Put(own + "/cgroup.procs", self) &&
         Put(group + "/cgroup.subtree_control", "+" + controller);
}

}  // namespace

std::string Cgroups::FindParent() {
  const std::string mount = FindMount();
  if (mount.empty()) return "";
  std::string own = FindOwn();
  if (own.ends_with(kOwnGroup)) own.resize(own.size() - std::string_view(kOwnGroup).size());
  return mount + own;
}

Cgroups::Cgroups(const std::string& parent, const std::string& state_dir) {
  if (parent.empty()) return;
  uint64_t hash = 0;
  for (char letter : state_dir) hash = Mix64(hash ^ static_cast<unsigned char>(letter));
  char name[32];
  std::snprintf(name, sizeof name, "/rt-%08x", static_cast<unsigned>(hash));
  const bool gives_memory = Enable(parent, "memory");
  const bool gives_cpu = Enable(parent, "cpu");
  if (!gives_memory && !gives_cpu) return;
  const std::string path = parent + name;
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return;
  parent_ = path;
  has_memory_ = gives_memory && Enable(parent_, "memory");
  has_cpu_ = gives_cpu && Enable(parent_, "cpu");
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent_, error)) {
    if (entry.is_directory(error)) ::rmdir(entry.path().c_str());  // Fails while it is in use.
  }
}

Cgroups::~Cgroups() {
  if (!parent_.empty()) ::rmdir(parent_.c_str());
}

std::string Cgroups::PathOf(const Fence& fence) const {
  return parent_ + "/" + rt::ToString(fence);
}

std::string Cgroups::Make(const Fence& fence, const ResourceLimits& limits) const {
  const bool memory = has_memory_ && limits.memory > 0;
  const bool cpu = has_cpu_ && limits.cpu > 0;
  if (!memory && !cpu) return "";
  const std::string path = PathOf(fence);
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return "";
  bool held = true;
  if (memory) {
    Put(path + "/memory.swap.max", "0");
    Put(path + "/memory.oom.group", "1");
    held = Put(path + "/memory.max", std::to_string(limits.memory));
  }
  if (cpu) {
    const int64_t quota = std::max(kCpuQuotaLeastUs, limits.cpu * kCpuPeriodUs / kUnit);
    held =
        Put(path + "/cpu.max", std::to_string(quota) + " " + std::to_string(kCpuPeriodUs)) && held;
  }
  if (held) return path;
  ::rmdir(path.c_str());
  return "";
}

bool Cgroups::HoldsMemory(const Fence& fence) const {
  return has_memory_ && !HasWord(PathOf(fence) + "/memory.max", "max") &&
         Exists(PathOf(fence) + "/memory.max");
}

std::optional<Bytes> Cgroups::RanOutOfMemory(const Fence& fence) const {
  if (parent_.empty()) return std::nullopt;
  auto events = ReadFile(PathOf(fence) + "/memory.events", 4096);
  auto limit = ReadFile(PathOf(fence) + "/memory.max", 4096);
  if (!events.ok() || !limit.ok()) return std::nullopt;
  for (const std::string& line : Split(*events, '\n')) {
    if (line.starts_with("oom_kill ") && line != "oom_kill 0") return std::atoll(limit->c_str());
  }
  return std::nullopt;
}

void Cgroups::Remove(const Fence& fence) const {
  if (parent_.empty()) return;
  const std::string path = PathOf(fence);
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return;
  Put(path + "/cgroup.kill", "1");
  for (int i = 0; i < kRemoveTries && ::rmdir(path.c_str()) != 0 && errno == EBUSY; ++i) {
    ::usleep(kRemovePauseUs);
  }
}

}  // namespace rt::worker
