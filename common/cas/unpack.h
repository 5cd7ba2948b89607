// The size that a tree has once it is unpacked, by its manifest, and whether it is accepted: a
// few chunks can be named many times, so that a tree is larger than what was pushed. A bundle has
// fixed bounds, where the head accepts it and where a worker unpacks it. An input or a checkpoint
// may be as large as the file system that it is unpacked on allows.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/base/time.h"
#include "common/cas/blob_store.h"
#include "common/cas/manifest.h"

namespace rt {

struct TreeTotals {
  size_t files = 0;  // Links and empty directories too: each takes an inode.
  Bytes bytes = 0;   // Of all files.
};
TreeTotals TotalsOf(const Manifest& tree);

// InvalidArgument above limits::kBundleFilesMax or kBundleBytesMax.
absl::Status CheckBundle(const Manifest& tree);
// The same of one in a store. NotFound: it is not there (any more).
absl::Status CheckBundle(BlobSource& store, const std::string& manifest);
// Before a byte is written. FailedPrecondition: the file system of `directory`, which exists, is
// too small for the tree even when it is empty; ResourceExhausted: it has too little space or too
// few inodes now.
absl::Status CheckUnpack(const Manifest& tree, const std::string& directory);

}  // namespace rt
