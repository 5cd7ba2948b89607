// The directories below which a head may write results. A head writes with the rights of its own
// account, and the paths come from its users: without a bound, a user could make it write wherever
// that account may. A path that is allowed is kept without links (Resolve), and every later access
// walks it from its root without following any (Open, Find), so that it still leads where it led
// when it was allowed. Roots are trusted, and may contain links themselves. All directories are
// looked up once, at construction. Thread-safe.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run/folder.h"

namespace rt {

class ResultRoots {
 public:
  struct Directories {  // Absolute.
    // Of experiments that name no directory; allowed, also inside of a protected directory.
    std::string results_root;
    std::vector<std::string> others = {};  // Allowed as well; "/" allows every directory.
    // What rt keeps for itself. Not allowed, whatever the roots are.
    std::vector<std::string> guarded = {};
  };
  explicit ResultRoots(Directories directories);

  // FailedPrecondition when one of `others` is in a guarded directory.
  absl::Status Check() const;
  const std::string& results_root() const { return directories_.results_root; }
  // `path` without links. InvalidArgument when it is not absolute, has "." or ".." in it, or is not
  // allowed; the message names the roots, and the hint says what to do.
  absl::StatusOr<std::string> Resolve(const std::string& path) const;
  // Opens what Resolve returned, or a directory below it, and makes what is missing.
  // PermissionDenied when it is not allowed, or a link is in the way.
  absl::StatusOr<Folder> Open(const std::string& path) const;
  // The same of a directory that is there; else NotFound.
  absl::StatusOr<Folder> Find(const std::string& path) const;

 private:
  struct Place {
    std::string root;   // Empty: it is not allowed.
    std::string guard;  // The guarded directory that it is in, if that is why.
  };
  Place PlaceOf(const std::string& path) const;
  absl::StatusOr<Folder> Walk(const std::string& path, bool make) const;

  const Directories directories_;     // As they were given.
  std::vector<std::string> roots_;    // Without links, the results_root first.
  std::vector<std::string> guarded_;  // The same of the guarded directories.
  std::set<FolderId> guarded_ids_;
};

}  // namespace rt
