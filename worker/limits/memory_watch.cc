#include "worker/limits/memory_watch.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr size_t kParent = 4 - 3;  // Fields of /proc/<pid>/stat, counted from field 3.
constexpr size_t kSession = 6 - 3;
constexpr size_t kResident = 24 - 3;

std::string MebibytesText(Bytes bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

ProcessTable ProcessTable::Read() {
  const Bytes page = ::sysconf(_SC_PAGESIZE);
  std::map<pid_t, Process> processes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    auto text = ReadFile(entry.path().string() + "/stat", 64 << 10);
    if (!text.ok()) continue;
    const size_t name_end = text->rfind(')');
    if (name_end == std::string::npos || name_end + 2 >= text->size()) continue;
    const std::vector<std::string> fields =
        Split(std::string_view(*text).substr(name_end + 2), ' ');
    if (fields.size() <= kResident) continue;
    processes[pid] = {std::atoi(fields[kParent].c_str()), std::atoi(fields[kSession].c_str()),
                      std::atoll(fields[kResident].c_str()) * page};
  }
  return ProcessTable(std::move(processes));
}

ProcessTable::ProcessTable(std::map<pid_t, Process> processes) : processes_(std::move(processes)) {
  for (const auto& [pid, process] : processes_) children_[process.parent].push_back(pid);
}

std::set<pid_t> ProcessTable::TreeOf(pid_t root) const {
  std::set<pid_t> tree;
  std::vector<pid_t> pending = {root};
  for (const auto& [pid, process] : processes_) {
    if (process.session == root) pending.push_back(pid);
  }
  while (!pending.empty()) {
    const pid_t pid = pending.back();
    pending.pop_back();
    if (!processes_.contains(pid) || !tree.insert(pid).second) continue;
    if (auto found = children_.find(pid); found != children_.end()) {
      pending.insert(pending.end(), found->second.begin(), found->second.end());
    }
  }
  return tree;
}

std::vector<pid_t> ProcessTable::pids() const {
  std::vector<pid_t> pids;
  for (const auto& [pid, process] : processes_) pids.push_back(pid);
  return pids;
}

Bytes ProcessTable::ResidentOf(const std::set<pid_t>& pids) const {
  Bytes sum = 0;
  for (pid_t pid : pids) {
    if (auto found = processes_.find(pid); found != processes_.end()) sum += found->second.resident;
  }
  return sum;
}

Bytes ProportionalMemoryOf(const std::set<pid_t>& pids) {
  Bytes sum = 0;
  for (pid_t pid : pids) {
    auto text = ReadFile("/proc/" + std::to_string(pid) + "/smaps_rollup", 64 << 10);
    if (!text.ok()) continue;
    const size_t at = text->find("\nPss:");
    if (at != std::string::npos) sum += std::atoll(text->c_str() + at + 5) << 10;
  }
  return sum;
}

bool IsBeyond(const ProcessTable& table, pid_t root, Bytes limit, Bytes& used) {
  const std::set<pid_t> tree = table.TreeOf(root);
  used = table.ResidentOf(tree);
  if (used <= limit) return false;
  // Resident memory counts what is shared once per process: look closer before killing for it.
  const Bytes closer = ProportionalMemoryOf(tree);
  if (closer != 0) used = closer;
  return used > limit;
}

std::string BeyondMemory(Bytes used, Bytes limit) {
  const std::string asked = "the " + MebibytesText(limit) + " of memory that it asked for";
  if (used <= limit) return "it grew beyond " + asked;
  return "it grew to " + MebibytesText(used) + ", beyond " + asked;
}

}  // namespace rt::worker
