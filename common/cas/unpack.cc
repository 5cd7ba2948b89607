#include "common/cas/unpack.h"

#include <sys/statvfs.h>

#include <cerrno>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

std::string SizeText(const TreeTotals& totals) {
  return BytesText(totals.bytes) + " in " + std::to_string(totals.files) + " files";
}

// With the last block of each file, which is rarely full.
Bytes BytesOnDisk(const Manifest& tree, Bytes block) {
  Bytes bytes = 0;
  for (const ManifestEntry& entry : tree.entries)
    bytes += entry.kind == ManifestEntry::Kind::kFile ? (entry.size + block - 1) / block * block
                                                      : block;
  return bytes;
}

}  // namespace

TreeTotals TotalsOf(const Manifest& tree) {
  TreeTotals totals{.files = tree.entries.size()};
  for (const ManifestEntry& entry : tree.entries) totals.bytes += entry.size;
  return totals;
}

absl::Status CheckBundle(const Manifest& tree) {
  const TreeTotals totals = TotalsOf(tree);
  if (totals.files <= limits::kBundleFilesMax && totals.bytes <= limits::kBundleBytesMax)
    return absl::OkStatus();
  return Invalid("the bundle unpacks to " + SizeText(totals) + "; the limits are " +
                     BytesText(limits::kBundleBytesMax) + " and " +
                     std::to_string(limits::kBundleFilesMax) + " files",
                 "leave data out of the working directory with .rtignore, and pass it as an input");
}

absl::Status CheckBundle(BlobSource& store, const std::string& manifest) {
  RT_ASSIGN_OR_RETURN(const std::string text, store.GetManifest(manifest));
  RT_ASSIGN_OR_RETURN(const Manifest tree, ParseManifest(text));
  return CheckBundle(tree);
}

absl::Status CheckUnpack(const Manifest& tree, const std::string& directory) {
  struct statvfs info {};
  if (::statvfs(directory.c_str(), &info) != 0) return ErrnoStatus(errno, directory);
  const auto block = static_cast<Bytes>(info.f_frsize);
  const Bytes whole = static_cast<Bytes>(info.f_blocks) * block;
  const Bytes free = static_cast<Bytes>(info.f_bavail) * block;
  const Bytes needed = BytesOnDisk(tree, block);
  const TreeTotals totals = TotalsOf(tree);
  const bool counts_inodes = info.f_files > 0;  // Some file systems make them as needed.
  const std::string what = "the tree unpacks to " + SizeText(totals) + ", but the file system of " +
                           EscapeControl(directory) + " ";
  if (needed > whole)
    return WithHint(absl::FailedPreconditionError(
                        ToAbsl(what + "has only " + BytesText(whole) + " in all")),
                    "use nodes with a larger disk (rt-worker --state-dir), or a smaller input");
  if (needed > free)
    return WithHint(absl::ResourceExhaustedError(
                        ToAbsl(what + "has only " + BytesText(free) + " free")),
                    "free space there, or use nodes with a larger disk");
  if (counts_inodes && totals.files > info.f_favail)
    return WithHint(absl::ResourceExhaustedError(ToAbsl(
                        what + "has only " + std::to_string(info.f_favail) + " free inodes")),
                    "remove files there, or pack the small files of the input into few");
  return absl::OkStatus();
}

}  // namespace rt
