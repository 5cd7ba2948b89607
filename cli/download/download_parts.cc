#include "cli/download/download_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "cli/download/tree_download.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {

void DownloadTally::Fetched(size_t files, Bytes bytes) {
  std::lock_guard lock(mutex_);
  result_.files += files;
  result_.bytes += bytes;
}

void DownloadTally::Missing(const std::string& what, const absl::Status& status) {
  std::lock_guard lock(mutex_);
  if (result_.first_error.ok()) result_.first_error = status;
  if (absl::IsPermissionDenied(status) && std::exchange(denied_, true)) return;
  result_.missing.push_back(what + ": " + MessageOf(status));
}

void DownloadTally::Gone(const std::string& what) {
  std::lock_guard lock(mutex_);
  result_.gone.push_back(what);
}

bool DownloadTally::is_whole() const {
  std::lock_guard lock(mutex_);
  return result_.first_error.ok();
}

absl::Status DownloadTrees(BlobSource& store, const std::vector<std::string>& manifests,
                           DownloadLog& log, const std::string& path, DownloadTally& tally) {
  const std::string version = Join(manifests, "+");
  if (log.Has(path, version)) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(Bytes bytes,
                      FetchTrees(store, manifests, log.directory() + "/" + path));
  log.Note(path, version);
  tally.Fetched(1, bytes);
  return log.SaveSometimes();
}

absl::Status SyncFileSystem(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open " + directory);
  const bool synced = ::syncfs(fd) == 0;
  const absl::Status status = synced ? absl::OkStatus() : ErrnoStatus(errno, "sync " + directory);
  ::close(fd);
  return status;
}

}  // namespace rt
