// Bundles and inputs, unpacked once per digest below one directory and never written afterwards.
// Thread-safe; two callers of one digest wait for one download.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "common/cas/blob_store.h"

namespace rt::worker {

class TreeCache {
 public:
  TreeCache(std::string directory, BlobStore& store)
      : directory_(std::move(directory)), store_(store) {}
  // The directory that holds the tree. Blocks while bytes travel.
  absl::StatusOr<std::string> Get(const std::string& manifest);

 private:
  absl::Status Fetch(const std::string& manifest, const std::string& path);

  const std::string directory_;
  BlobStore& store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> fetching_;
};

}  // namespace rt::worker
