// A directory tree as a manifest plus chunks, and back.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "common/cas/blob_store.h"
#include "common/cas/manifest.h"

namespace rt {

struct TreeOptions {
  // Bundles: .gitignore and .rtignore are honoured, .git, sockets, and the paths in `exclude`
  // (absolute: RT_HOME, results) are left out, and unless '!' takes them back, so are virtual
  // environments of Python and node_modules. Off for checkpoints: everything is taken.
  bool honour_ignore_files = false;
  std::vector<std::string> exclude;
  // Only these files, links and empty directories, below the root, and of each file at most so many
  // bytes; null: all.
  const std::map<std::string, Bytes>* only = nullptr;
  // With `only`: gets the files that are gone or cannot be read, each with the reason; the rest is
  // stored without them. Null: they are errors.
  std::map<std::string, std::string>* unreadable = nullptr;
  // Hears the bytes that were read so far, on the caller's thread; null: nobody does.
  std::function<void(Bytes)> on_progress;
  // Asked before every chunk; once it says so, the storing ends with Cancelled. Null: never.
  std::function<bool()> is_cancelled;
};
struct StoredTree {
  std::string manifest;  // Digest.
  std::string text;      // The manifest itself.
  Bytes bytes = 0;       // Of all files.
  size_t files = 0;
  // What rules of ours left out, with the reason: "wv/" is "a virtual environment".
  std::map<std::string, std::string> left_out;
};
// What StoreTree would store, from the sizes of the files alone.
struct TreeSize {
  Bytes bytes = 0;
  size_t files = 0;
  std::map<std::string, Bytes> entries;  // Of the root: "data/" with all below it, "train.py".
  std::map<std::string, std::string> left_out;  // As above.
};
// InvalidArgument for a bundle above limits::kBundleFilesMax or kBundleBytesMax.
absl::Status CheckBundleSize(size_t files, Bytes bytes);
absl::StatusOr<TreeSize> MeasureTree(const std::string& path, const TreeOptions& options);
// Stores only what is missing. A path that is a file becomes a tree of one file. InvalidArgument,
// before a byte is read, where the sizes of its files say that its manifest would be longer than
// limits::kManifestBytesMax.
absl::StatusOr<StoredTree> StoreTree(BlobStore& store, const std::string& path,
                                     const TreeOptions& options);
// Recreates the tree below `target` (made if absent), verifying every chunk; never writes outside
// it. The source verifies, and is asked from several threads.
absl::Status RestoreTree(BlobSource& source, const std::string& manifest,
                         const std::string& target);
// The same of a manifest that is at hand. `on_written` (or null) hears, on the caller's thread, how
// many chunks are in their files, in the manifest's order.
absl::Status RestoreEntries(BlobSource& source, const Manifest& tree, const std::string& target,
                            const std::function<void(size_t)>& on_written);

}  // namespace rt
