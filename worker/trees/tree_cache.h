// Bundles and inputs, unpacked once per digest below one directory and never written afterwards.
// A tree stays while an attempt uses it; of the others the most recently used are kept, within
// bounds. Thread-safe; two callers of one digest wait for one download.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/limits.h"
#include "worker/trees/tree_fetcher.h"

namespace rt::worker {

struct TreeCacheBounds {
  size_t trees = limits::kCachedTreesMax;
  Bytes bytes = limits::kCachedTreeBytesMax;
};

class TreeCache {
 public:
  TreeCache(std::string directory, TreeFetcher& fetcher, TreeCacheBounds bounds = {})
      : directory_(std::move(directory)), fetcher_(fetcher), bounds_(bounds) {}
  // The directory that holds the tree; it stays until Release(user). Blocks while bytes travel.
  // Where the disk is too full for it, the trees that nobody uses are given up first.
  absl::StatusOr<std::string> Get(const std::string& manifest, const Fence& user,
                                  TreeKind kind = TreeKind::kAny);
  // The same directory if the tree is there; "" otherwise. Does not block.
  std::string PathOf(const std::string& manifest) const;
  // Keeps the tree that an attempt of an earlier daemon uses.
  void Keep(const std::string& manifest, const Fence& user);
  void Release(const Fence& user);

 private:
  struct Entry {
    std::string name;
    int64_t used_at = 0;  // Nanoseconds since the epoch.
    Bytes bytes = 0;
  };
  absl::Status Fetch(const std::string& manifest, const std::string& path, TreeKind kind);
  std::vector<Entry> Entries();
  // Takes what is beyond the bounds out of the cache; the paths are to be removed. Under mutex_.
  std::vector<std::string> Evict(const TreeCacheBounds& bounds);

  const std::string directory_;
  TreeFetcher& fetcher_;
  const TreeCacheBounds bounds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> fetching_;  // Names, as all below.
  std::map<Fence, std::set<std::string>> users_;
  std::map<std::string, Bytes> sizes_;
};

}  // namespace rt::worker
