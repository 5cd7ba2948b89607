// <directory>/.rt-download.json: whose results a directory holds and which versions of them, so
// that the next download fetches only what changed. A file that was touched since it was noted
// counts as changed. One download at a time works in a directory: the next one waits for it.
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rt {

// What the results are of.
struct DownloadSource {
  std::string cluster_id;
  std::string kind;  // experiment, job
  uint64_t id = 0;
  friend bool operator==(const DownloadSource&, const DownloadSource&) = default;
};

class DownloadLog {
 public:
  // Of a directory that is there. FailedPrecondition when it holds a download of something else.
  static absl::StatusOr<std::unique_ptr<DownloadLog>> Open(const std::string& directory,
                                                           const DownloadSource& source);

  ~DownloadLog();
  DownloadLog(const DownloadLog&) = delete;
  DownloadLog& operator=(const DownloadLog&) = delete;

  const std::string& directory() const { return directory_; }
  // Whether `path` (relative) was noted with this version and lies there as it was then.
  bool Has(const std::string& path, std::string_view version) const;
  // Whether it lies there as it was noted, whatever its version.
  bool IsIntact(const std::string& path) const;
  // What lies at `path` now is that version. A path where nothing lies is noted as absent.
  void Note(const std::string& path, std::string_view version);
  void Forget(const std::string& path);
  // The noted paths that begin with `prefix`.
  std::vector<std::string> Below(std::string_view prefix) const;
  // At most twice a second, so that a download that is killed has little to do again.
  absl::Status SaveSometimes();
  absl::Status Save();

 private:
  struct Entry {
    std::string version;
    int64_t bytes = -1;  // Of a file; -1: nothing lay there, -2: a directory.
    int64_t modified_ns = 0;
  };
  DownloadLog(std::string directory, DownloadSource source)
      : directory_(std::move(directory)), source_(std::move(source)) {}
  static Entry Look(const std::string& path);
  bool IsAsNoted(const std::string& path, const Entry& entry) const;
  absl::Status Lock();
  absl::Status Read();
  absl::Status SaveLocked();

  const std::string directory_;
  const DownloadSource source_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  int lock_fd_ = -1;
  bool is_changed_ = false;
  int64_t saved_at_ms_ = 0;
};

// An error unless a file of this path may be in the log: the path stays in the directory, and the
// file is not one of rt's own.
absl::Status CheckDownloadPath(std::string_view path);

// FailedPrecondition when a directory on the way to `path`, which is relative to `directory`, is a
// link: a download neither writes nor removes anything through one.
absl::Status CheckNoLink(const std::string& directory, std::string_view path);

// Whether nothing lies there but the log and the lock of a download.
bool IsFreeForDownload(const std::string& directory);

// Where a download without a directory of its own goes: <root>/<name>, or <name>-2 and so on where
// that holds something else.
std::string FreeDownloadDirectory(const std::string& root, const std::string& name,
                                  const DownloadSource& source);

}  // namespace rt
