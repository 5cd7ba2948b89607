// The work of one download, which several threads share: what was fetched, what did not come, and
// the parts that an experiment and a job have in common.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "cli/download/download.h"
#include "common/cas/blob_store.h"

namespace rt {

class DownloadTally {
 public:
  explicit DownloadTally(std::string directory) { result_.directory = std::move(directory); }

  void Fetched(size_t files, Bytes bytes);
  // Of the same error only the first is listed: a viewer may not read a single checkpoint.
  void Missing(const std::string& what, const absl::Status& status);
  void Gone(const std::string& what);
  bool is_whole() const;
  Downloaded Take() { return std::move(result_); }

 private:
  mutable std::mutex mutex_;
  Downloaded result_;
  bool denied_ = false;
};

// The trees of the manifests at `path` (relative to the log's directory).
absl::Status DownloadTrees(BlobSource& store, const std::vector<std::string>& manifests,
                           DownloadLog& log, const std::string& path, DownloadTally& tally);

// What a trial or a job wrote, to `path`. `item`: as `show` has it; while some of it is on its way
// to the store it is asked for again, bounded. `name` begins the lines of what was left out.
struct DownloadTools {
  HeadClient& client;
  BlobSource& store;
  DownloadLog& log;
  DownloadTally& tally;
};
absl::Status DownloadOutputs(const DownloadTools& tools,
                             const std::function<absl::StatusOr<Json>()>& ask, Json item,
                             const std::string& name, const std::string& path);

// How long a download waits for nodes that bring something to the store.
inline constexpr Millis kDownloadWaitMax = 60'000;

// The files that the head writes, of the whole experiment.
absl::Status DownloadResultFiles(HeadClient& client, uint64_t experiment, DownloadLog& log,
                                 DownloadTally& tally);

// Removes each error.txt of earlier downloads that is not listed any more: a trial that is tried
// again has none. What lies behind a link is only forgotten.
absl::Status RemoveUnlisted(const std::set<std::string>& listed, DownloadLog& log);

// Flushes what lies on the directory's file system: what it was copied from may go now.
absl::Status SyncFileSystem(const std::string& directory);

}  // namespace rt
