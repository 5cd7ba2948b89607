#include "cli/download/download_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "cli/client/local_cluster.h"
#include "cli/download/tree_download.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"

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

absl::Status DownloadOutputs(const DownloadTools& tools,
                             const std::function<absl::StatusOr<Json>()>& ask, Json item,
                             const std::string& name, const std::string& path) {
  const Millis deadline = SteadyClock() + kDownloadWaitMax;
  while (item.GetBool("outputs_pending")) {
    if (SteadyClock() > deadline || tools.client.cancelled())
      return absl::DeadlineExceededError("its node has not brought it to the store");
    SleepFor(200);
    RT_ASSIGN_OR_RETURN(item, ask());
  }
  const Json* outputs = item.Find("outputs");
  if (outputs == nullptr || !outputs->is_object()) return absl::OkStatus();
  if (const int64_t files = outputs->GetInt("left_out_files"); files > 0)
    tools.tally.Gone(name + (name.empty() ? "" : ": ") + std::to_string(files) +
                     " of the files that it wrote were not kept: 'show' names them");
  std::vector<std::string> manifests = ManifestsOf(*outputs);
  if (manifests.back().empty()) return absl::OkStatus();
  return DownloadTrees(tools.store, manifests, tools.log, path, tools.tally);
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
