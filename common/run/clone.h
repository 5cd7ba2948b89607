// Copies of trees that share their bytes with the original until one of them is written to
// (reflinks), where the file system has that: XFS, Btrfs, ZFS and others, not ext4.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace rt {

// `to` must not be there; what is made of it stays when this fails. Files are readable and writable
// for their owner; links are kept; what is neither file, folder nor link is left out. Unimplemented
// where the file system has no reflinks.
absl::Status CloneTree(const std::string& from, const std::string& to);

}  // namespace rt
