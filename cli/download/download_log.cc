#include "cli/download/download_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "cli/client/local_cluster.h"
#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/manifest.h"
#include "common/run/clock.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr char kName[] = "/.rt-download.json";
constexpr char kOwn[] = ".rt-download.";  // The log, what it is written into, and the lock.
constexpr char kLock[] = ".rt-download.lock";  // Of its own: the log is replaced by renaming.
constexpr Bytes kBytesMax = Bytes{256} << 20;
constexpr int64_t kSaveEveryMs = 500;
constexpr int64_t kAbsent = -1, kDirectory = -2;

Json SourceJson(const DownloadSource& source) {
  return Json::MakeObject(
      {{"cluster", source.cluster_id}, {"kind", source.kind}, {"id", source.id}});
}

// NotFound when nothing was downloaded there.
absl::StatusOr<Json> ReadLog(const std::string& directory) {
  RT_ASSIGN_OR_RETURN(std::string text, ReadFile(directory + kName, kBytesMax));
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return Annotate(json.status(), directory + kName);
  return json;
}

bool IsOf(const Json& log, const DownloadSource& source) {
  const Json* found = log.Find("source");
  return found != nullptr && *found == SourceJson(source);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DownloadLog>> DownloadLog::Open(const std::string& directory,
                                                               const DownloadSource& source) {
  std::unique_ptr<DownloadLog> log(new DownloadLog(directory, source));
  RT_RETURN_IF_ERROR(log->Lock());
  RT_RETURN_IF_ERROR(log->Read());
  return log;
}

DownloadLog::~DownloadLog() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

absl::Status DownloadLog::Lock() {
  const std::string path = directory_ + "/" + kLock;
  lock_fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (lock_fd_ < 0) return ErrnoStatus(errno, "open " + path);
  while (::flock(lock_fd_, LOCK_EX) != 0)
    if (errno != EINTR) return ErrnoStatus(errno, "lock " + path);
  return absl::OkStatus();
}

absl::Status DownloadLog::Read() {
  absl::StatusOr<Json> json = ReadLog(directory_);
  if (absl::IsNotFound(json.status())) {
    is_changed_ = true;
    return SaveLocked();  // Whoever comes after a kill knows whose directory this is.
  }
  if (!json.ok()) return json.status();
  if (!IsOf(*json, source_))
    return WithHint(absl::FailedPreconditionError(
                        ToAbsl(directory_ + " holds the results of something else")),
                    "name another directory");
  const Json* files = json->Find("files");
  if (files == nullptr || !files->is_object()) return absl::OkStatus();
  for (const auto& [path, entry] : files->object()) {
    // Whoever wrote this log must not have us look at, or remove, anything elsewhere.
    if (const absl::Status bad = CheckDownloadPath(path); !bad.ok()) {
      std::fprintf(stderr, "rt: %s%s: %s; the entry is ignored\n",
                   EscapeControl(directory_).c_str(), kName, MessageOf(bad).c_str());
      is_changed_ = true;
      continue;
    }
    entries_[path] = {entry.GetString("version"), entry.GetInt("bytes", kAbsent),
                      entry.GetInt("modified_ns")};
  }
  return absl::OkStatus();
}

DownloadLog::Entry DownloadLog::Look(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {"", kAbsent, 0};
  if (S_ISDIR(info.st_mode)) return {"", kDirectory, 0};
  return {"", info.st_size, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

bool DownloadLog::IsAsNoted(const std::string& path, const Entry& entry) const {
  const Entry now = Look(directory_ + "/" + path);
  return now.bytes == entry.bytes && now.modified_ns == entry.modified_ns;
}

bool DownloadLog::Has(const std::string& path, std::string_view version) const {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(path);
  return found != entries_.end() && found->second.version == version &&
         IsAsNoted(path, found->second);
}

bool DownloadLog::IsIntact(const std::string& path) const {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(path);
  return found != entries_.end() && IsAsNoted(path, found->second);
}

void DownloadLog::Note(const std::string& path, std::string_view version) {
  Entry entry = Look(directory_ + "/" + path);
  entry.version = version;
  std::lock_guard lock(mutex_);
  entries_[path] = std::move(entry);
  is_changed_ = true;
}

void DownloadLog::Forget(const std::string& path) {
  std::lock_guard lock(mutex_);
  is_changed_ = entries_.erase(path) != 0 || is_changed_;
}

std::vector<std::string> DownloadLog::Below(std::string_view prefix) const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (auto entry = entries_.lower_bound(std::string(prefix));
       entry != entries_.end() && entry->first.starts_with(prefix); ++entry)
    paths.push_back(entry->first);
  return paths;
}

absl::Status DownloadLog::SaveSometimes() {
  std::lock_guard lock(mutex_);
  return SteadyClock() - saved_at_ms_ < kSaveEveryMs ? absl::OkStatus() : SaveLocked();
}

absl::Status DownloadLog::Save() {
  std::lock_guard lock(mutex_);
  return SaveLocked();
}

absl::Status DownloadLog::SaveLocked() {
  if (!is_changed_) return absl::OkStatus();
  Json::Object files;
  for (const auto& [path, entry] : entries_)
    files.emplace_back(path, Json::MakeObject({{"version", entry.version},
                                               {"bytes", entry.bytes},
                                               {"modified_ns", entry.modified_ns}}));
  const Json json = Json::MakeObject(
      {{"schema", 1}, {"source", SourceJson(source_)}, {"files", Json(std::move(files))}});
  RT_RETURN_IF_ERROR(WriteFileAtomic(directory_ + kName, json.Dump() + "\n",
                                     {.mode = 0644, .sync = false}));
  is_changed_ = false;
  saved_at_ms_ = SteadyClock();
  return absl::OkStatus();
}

absl::Status CheckDownloadPath(std::string_view path) {
  RT_RETURN_IF_ERROR(CheckRelativePath(path));
  const std::string_view first = path.substr(0, path.find('/'));
  if (first.starts_with(".rt-"))
    return Invalid("'" + EscapeControl(first) + "' is a name that rt uses itself");
  return absl::OkStatus();
}

absl::Status CheckNoLink(const std::string& directory, std::string_view path) {
  for (size_t slash = path.find('/'); slash != std::string_view::npos;
       slash = path.find('/', slash + 1)) {
    const std::string parent = directory + "/" + std::string(path.substr(0, slash));
    struct stat info {};
    if (::lstat(parent.c_str(), &info) != 0) break;  // Nothing lies there, and nothing below it.
    if (S_ISLNK(info.st_mode))
      return WithHint(absl::FailedPreconditionError(ToAbsl(EscapeControl(parent) + " is a link")),
                      "a download does not follow links in its directory: remove the link, or "
                      "name another directory");
  }
  return absl::OkStatus();
}

bool IsFreeForDownload(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error))
    if (!entry.path().filename().string().starts_with(kOwn)) return false;
  return !error;
}

std::string FreeDownloadDirectory(const std::string& root, const std::string& name,
                                  const DownloadSource& source) {
  const std::string wanted = root + "/" + name;
  std::string path = wanted;
  for (int suffix = 2; Exists(path); ++suffix) {
    // In this order: another download that has just begun writes its log before anything else.
    const bool is_free = IsFreeForDownload(path);
    absl::StatusOr<Json> log = ReadLog(path);
    if (log.ok() && IsOf(*log, source)) break;
    if (absl::IsNotFound(log.status()) && is_free) break;
    path = wanted + "-" + std::to_string(suffix);
  }
  return path;
}

}  // namespace rt
