#include "common/run/result_roots.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

// Of a path that is absent in part, the part that is there loses its links. Unchanged on an error:
// whatever is wrong there shows when the directory is opened.
std::string WithoutLinks(const std::string& path) {
  std::error_code error;
  std::string found = std::filesystem::weakly_canonical(path, error).string();
  if (error) found = std::filesystem::path(path).lexically_normal().string();
  while (found.size() > 1 && found.back() == '/') found.pop_back();
  return found;
}

// By their text alone.
bool IsWithin(const std::string& path, const std::string& root) {
  if (!path.starts_with(root)) return false;
  return path.size() == root.size() || root.ends_with('/') || path[root.size()] == '/';
}

bool IsPlainPath(const std::string& path) {
  if (path.empty() || path[0] != '/' || path.find('\0') != std::string::npos) return false;
  const std::vector<std::string> parts = Split(path, '/');
  return std::none_of(parts.begin(), parts.end(),
                      [](const std::string& part) { return part == "." || part == ".."; });
}

absl::Status NotAllowed(const std::string& path, const std::string& guard) {
  return absl::PermissionDeniedError(
      ToAbsl(path + (guard.empty() ? ": this head writes no results there"
                                   : " is in " + guard + ", which rt keeps for itself")));
}

}  // namespace

ResultRoots::ResultRoots(Directories directories) : directories_(std::move(directories)) {
  roots_.push_back(WithoutLinks(directories_.results_root));
  for (const std::string& root : directories_.others) roots_.push_back(WithoutLinks(root));
  for (const std::string& guarded : directories_.guarded) {
    guarded_.push_back(WithoutLinks(guarded));
    const absl::StatusOr<Folder> folder = Folder::OpenTrusted(guarded, false);
    if (!folder.ok()) continue;
    if (const absl::StatusOr<FolderId> id = folder->GetId(); id.ok()) guarded_ids_.insert(*id);
  }
}

absl::Status ResultRoots::Check() const {
  for (size_t i = 1; i < roots_.size(); ++i) {
    for (const std::string& guarded : guarded_) {
      if (IsWithin(roots_[i], guarded))
        return absl::FailedPreconditionError(ToAbsl(
            "results_roots: " + roots_[i] + " is in " + guarded + ", which rt keeps for itself"));
    }
  }
  return absl::OkStatus();
}

// Of all roots and guarded directories around it, the innermost decides.
ResultRoots::Place ResultRoots::PlaceOf(const std::string& path) const {
  Place place;
  for (const std::string& root : roots_)
    if (IsWithin(path, root) && root.size() > place.root.size()) place.root = root;
  for (const std::string& guarded : guarded_)
    if (IsWithin(path, guarded) && guarded.size() >= place.root.size()) return {"", guarded};
  return place;
}

absl::StatusOr<std::string> ResultRoots::Resolve(const std::string& path) const {
  if (!IsPlainPath(path))
    return Invalid("must be an absolute path without '.' and '..', not '" + path + "'");
  const std::string found = WithoutLinks(path);
  const Place place = PlaceOf(found);
  if (!place.root.empty()) return found;
  if (!place.guard.empty())
    return Invalid(MessageOf(NotAllowed(path, place.guard)), "choose another directory");
  std::vector<std::string> roots = directories_.others;
  roots.insert(roots.begin(), directories_.results_root);
  return Invalid(path + " is on the head's machine, and this head writes results only below " +
                     Join(roots, ", "),
                 "leave it out, and fetch the results with `rt exp download`; or ask an "
                 "administrator to add the directory to the head's results_roots");
}

absl::StatusOr<Folder> ResultRoots::Walk(const std::string& path, bool make) const {
  if (!IsPlainPath(path)) return NotAllowed(path, "");
  std::string wanted = path;
  // Earlier releases kept paths as they were given.
  if (const std::string& root = directories_.results_root; IsWithin(path, root))
    wanted = roots_.front() + path.substr(root.size());
  const Place place = PlaceOf(wanted);
  if (place.root.empty()) return NotAllowed(path, place.guard);
  RT_ASSIGN_OR_RETURN(Folder folder, Folder::OpenTrusted(place.root, make));
  for (const std::string& part : Split(wanted.substr(place.root.size()), '/')) {
    if (part.empty()) continue;
    RT_ASSIGN_OR_RETURN(Folder next, make ? folder.Enter(part) : folder.Find(part));
    RT_ASSIGN_OR_RETURN(const FolderId id, next.GetId());
    if (guarded_ids_.contains(id)) return NotAllowed(path, next.path());
    folder = std::move(next);
  }
  return folder;
}

absl::StatusOr<Folder> ResultRoots::Open(const std::string& path) const { return Walk(path, true); }

absl::StatusOr<Folder> ResultRoots::Find(const std::string& path) const {
  return Walk(path, false);
}

}  // namespace rt
