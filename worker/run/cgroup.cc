#include "worker/run/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "common/base/rng.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr int kRemoveTries = 100;
constexpr int kRemovePauseUs = 1'000;

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

// Gives `group`'s children a memory controller. A group with processes of its own cannot have any:
// one that is ours alone (a systemd unit with Delegate=yes) makes room by a child for this daemon.
bool EnableMemory(const std::string& group) {
  if (HasWord(group + "/cgroup.subtree_control", "memory")) return true;
  if (!HasWord(group + "/cgroup.controllers", "memory")) return false;
  if (Put(group + "/cgroup.subtree_control", "+memory")) return true;
  auto members = ReadFile(group + "/cgroup.procs", 1 << 20);
  const std::string self = std::to_string(::getpid());
  if (errno != EBUSY || !members.ok() || Trim(*members) != self) return false;
  const std::string own = group + "/rt-daemon";
  const bool there = ::mkdir(own.c_str(), 0755) == 0 || errno == EEXIST;
  return there && Put(own + "/cgroup.procs", self) &&
         Put(group + "/cgroup.subtree_control", "+memory");
}

}  // namespace

Cgroups::Cgroups(const std::string& state_dir) {
  const std::string mount = FindMount();
  if (mount.empty()) return;
  std::string own = FindOwn();
  if (own.ends_with("/rt-daemon")) own.resize(own.size() - std::string_view("/rt-daemon").size());
  uint64_t hash = 0;
  for (char letter : state_dir) hash = Mix64(hash ^ static_cast<unsigned char>(letter));
  char name[32];
  std::snprintf(name, sizeof name, "/rt-%08x", static_cast<unsigned>(hash));
  const std::string parent = mount + own + name;
  if (!EnableMemory(mount + own)) return;
  if (::mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) return;
  parent_ = parent;
  has_memory_ = EnableMemory(parent_);
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

std::string Cgroups::Make(const Fence& fence, Bytes memory) const {
  if (parent_.empty() || !has_memory_) return "";
  const std::string path = PathOf(fence);
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return "";
  Put(path + "/memory.swap.max", "0");
  Put(path + "/memory.oom.group", "1");
  if (Put(path + "/memory.max", std::to_string(memory))) return path;
  ::rmdir(path.c_str());
  return "";
}

bool Cgroups::Holds(const Fence& fence) const {
  return !parent_.empty() && Exists(PathOf(fence));
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
