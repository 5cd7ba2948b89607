// Copies of files and trees that share their bytes with the original until one of them is written
// to (reflinks), where the file system has that: XFS, Btrfs, ZFS and others, not ext4.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace rt {

enum class CopyMode {
  kClone,        // Unimplemented where the file system has no reflinks.
  kCloneOrCopy,  // There the bytes are copied.
};

// `to` must not be there; what is made of it stays when this fails. A copy is readable and
// writable for its owner, executable as the original is; a link at `from` is an error.
absl::Status CopyFile(const std::string& from, const std::string& to, CopyMode mode);

// The same for a directory and all in it. Links in it are kept; what is neither file, folder nor
// link is left out.
absl::Status CopyTree(const std::string& from, const std::string& to, CopyMode mode);

}  // namespace rt
