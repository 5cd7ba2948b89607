#include "worker/launch/run_dirs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr size_t kLogsKept = 1'000;
constexpr Bytes kSilentBytesMax = 8 << 20;  // Far above what limits::kSilentAttemptsMax lines take.
constexpr size_t kSparesMax = 64;

// Its logs; and of rank 0 of several, which barrier they passed last (RunDir::barrier).
bool IsKept(const std::string& name) {
  const bool is_log =
      name.ends_with(".log") && (name.starts_with("stdout.") || name.starts_with("stderr."));
  return is_log || name == "barrier";
}

std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

absl::Status EmptyDirectory(const std::string& path) {
  absl::Status status;
  for (const std::string& name : NamesIn(path)) {
    if (absl::Status removed = RemoveTree(path + "/" + name); !removed.ok()) status = removed;
  }
  return status;
}

// Makes a file or directory of a run directory as good as new, or removes it: programs may have
// replaced it by something else.
absl::Status Renew(const std::string& path, const std::string& name) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  const bool directory = name == "trial" || name == "work";
  if (directory && S_ISDIR(info.st_mode)) {
    if ((info.st_mode & 07777) != 0700 && ::chmod(path.c_str(), 0700) != 0) {
      return ErrnoStatus(errno, "chmod " + path);
    }
    return EmptyDirectory(path);
  }
  const bool file =
      name == "config.json" || name == "body.json" || name == "shim" || name == "spool";
  if (file && S_ISREG(info.st_mode) && info.st_nlink == 1) {
    // These are written anew by every launch, before its shim is there to make them count.
    if (name == "config.json" || name == "body.json") return absl::OkStatus();
    if (info.st_size <= 1) return absl::OkStatus();
    return RunDirs::Write(path, "\n");
  }
  return RemoveTree(path);
}

// The logs that earlier daemons kept, oldest first.
std::deque<std::string> FindKept(const std::string& directory) {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    found.emplace_back(entry.last_write_time(error), entry.path().string());
  }
  std::sort(found.begin(), found.end());
  std::deque<std::string> kept;
  for (auto& [time, path] : found) kept.push_back(std::move(path));
  return kept;
}

}  // namespace

RunDirs::RunDirs(std::string state_dir)
    : state_dir_(std::move(state_dir)), kept_(FindKept(state_dir_ + "/logs")) {
  RemoveTree(state_dir_ + "/spare").IgnoreError();       // They would only save a little work.
  EnsureDirectory(state_dir_ + "/spare").IgnoreError();  // Or Retire fails, and says why.
  EnsureDirectory(state_dir_ + "/logs").IgnoreError();
  EnsureDirectory(state_dir_ + "/attempts").IgnoreError();
  for (const std::string& name : NamesIn(state_dir_ + "/attempts"))
    if (const std::optional<Fence> fence = ParseFence(name)) made_.insert(*fence);
  ReadSilent();
}

void RunDirs::ReadSilent() {
  absl::StatusOr<std::string> text = ReadFile(state_dir_ + "/silent", kSilentBytesMax);
  if (!text.ok()) return;  // There is none yet.
  for (const std::string& line : Split(*text, '\n')) {
    const std::optional<Fence> fence = ParseFence(line);
    if (fence.has_value() && silent_.insert(*fence).second) silent_order_.push_back(*fence);
    silent_lines_ += line.empty() ? 0 : 1;
  }
}

RunDir RunDirs::Of(const Fence& fence) const {
  return {state_dir_ + "/attempts/" + rt::ToString(fence)};
}
std::string RunDirs::KeptOf(const Fence& fence) const {
  return state_dir_ + "/logs/" + rt::ToString(fence);
}

absl::Status RunDirs::Make(const Fence& fence) {
  const RunDir dir = Of(fence);
  if (Exists(dir.path)) RT_RETURN_IF_ERROR(RemoveTree(dir.path));
  std::string spare;
  {
    std::lock_guard lock(mutex_);
    made_.insert(fence);
    if (!spares_.empty()) {
      spare = std::move(spares_.front());
      spares_.pop_front();
    }
  }
  if (spare.empty() || ::rename(spare.c_str(), dir.path.c_str()) != 0) {
    RT_RETURN_IF_ERROR(EnsureDirectory(dir.path));
  }
  return EnsureDirectory(dir.trial());
}

// One step at first, because somebody may be reading the logs: they are here, or there.
absl::Status RunDirs::Retire(const Fence& fence) {
  const std::string kept = KeptOf(fence);
  const bool was_made = Unmake(fence);
  if (::rename(Of(fence).path.c_str(), kept.c_str()) != 0) {
    if (errno != ENOENT) return RemoveTree(Of(fence).path);
    // Stopped before it was prepared: it printed nothing. Else its log is lost.
    if (!was_made && !Exists(kept)) Note(fence, kept, true);
    return absl::OkStatus();
  }
  const std::vector<std::string> names = NamesIn(kept);
  const bool silent = std::none_of(names.begin(), names.end(), IsKept);
  Note(fence, kept, silent);
  absl::Status renewed;
  for (const std::string& name : names) {
    if (IsKept(name)) continue;
    if (absl::Status one = Renew(kept + "/" + name, name); !one.ok()) renewed = one;
  }
  RT_RETURN_IF_ERROR(renewed);  // It stays among the logs, and goes with them.
  const std::string spare = NewSpare();
  if (spare.empty()) return silent ? RemoveTree(kept) : absl::OkStatus();
  if (silent) {
    if (::rename(kept.c_str(), spare.c_str()) != 0) return RemoveTree(kept);
  } else {
    RT_RETURN_IF_ERROR(EnsureDirectory(spare));
    for (const std::string& name : names) {
      if (!IsKept(name)) ::rename((kept + "/" + name).c_str(), (spare + "/" + name).c_str());
    }
  }
  std::lock_guard lock(mutex_);
  spares_.push_back(spare);
  return absl::OkStatus();
}

bool RunDirs::Unmake(const Fence& fence) {
  std::lock_guard lock(mutex_);
  return made_.erase(fence) != 0;
}

// Where its logs are from now on.
void RunDirs::Note(const Fence& fence, const std::string& kept, bool silent) {
  {
    std::lock_guard lock(mutex_);
    if (!silent) {
      kept_.push_back(kept);
    } else if (silent_.insert(fence).second) {
      NoteSilent(fence);
    }
  }
  RemoveOldLogs();
}

// Without a sync: after a crash of the machine, the log of such an attempt counts as lost.
void RunDirs::NoteSilent(const Fence& fence) {
  silent_order_.push_back(fence);
  for (; silent_order_.size() > limits::kSilentAttemptsMax; silent_order_.pop_front())
    silent_.erase(silent_order_.front());
  const std::string path = state_dir_ + "/silent";
  if (silent_lines_ > 2 * limits::kSilentAttemptsMax) {
    std::string text;
    for (const Fence& one : silent_order_) text += rt::ToString(one) + "\n";
    silent_lines_ = silent_order_.size();
    WriteFileAtomic(path, text, {.sync = false}).IgnoreError();
    return;
  }
  ++silent_lines_;
  std::ofstream(path, std::ios::app) << rt::ToString(fence) + "\n";
}

// "" when there are enough.
std::string RunDirs::NewSpare() {
  std::lock_guard lock(mutex_);
  if (spares_.size() >= kSparesMax) return "";
  return state_dir_ + "/spare/" + std::to_string(next_spare_++);
}

void RunDirs::RemoveOldLogs() {
  std::vector<std::string> dropped;
  {
    std::lock_guard lock(mutex_);
    for (; kept_.size() > kLogsKept; kept_.pop_front()) dropped.push_back(kept_.front());
  }
  for (const std::string& logs : dropped) RemoveTree(logs).IgnoreError();  // Or a later daemon.
}

std::string RunDirs::LogsOf(const Fence& fence) const {
  for (const std::string& path : {Of(fence).path, KeptOf(fence)}) {
    if (Exists(path)) return path;
  }
  std::lock_guard lock(mutex_);
  return silent_.contains(fence) ? state_dir_ + "/spare" : "";  // Holds directories only.
}

absl::Status RunDirs::Write(const std::string& path, std::string_view text) {
  // Not truncated to nothing first: ext4 would write the new text to the disk as the file closes.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, "open " + path);
  absl::Status status;
  const auto size = static_cast<off_t>(text.size());
  while (!text.empty() && status.ok()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      status = ErrnoStatus(errno, "write " + path);
    }
  }
  if (status.ok() && ::ftruncate(fd, size) != 0) status = ErrnoStatus(errno, "cut " + path);
  ::close(fd);
  return status;
}

}  // namespace rt::worker
