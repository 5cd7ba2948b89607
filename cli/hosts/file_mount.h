// `file_mounts` of cluster.yaml: a local file or directory that hosts get under a path of theirs.
// Both ends speak of it as a list of its files with their digests, so that only what changed
// travels. As with rsync, what was removed here stays there. Blocks.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"

namespace rt {

// On the client.
class FileMount {
 public:
  // Reads the files below `source` (or that file). NotFound when there is none.
  static absl::StatusOr<FileMount> Read(const std::string& target, const std::string& source);
  const std::string& target() const { return target_; }
  // {"target", "is_file", "files": {path: digest}}; the path of a single file is its name.
  Json Listing() const;
  // The gzipped tar of these of its files.
  absl::StatusOr<std::string> Pack(const std::vector<std::string>& files) const;

 private:
  std::string target_, root_;  // Paths are below the root.
  bool is_file_ = false;
  Json files_ = Json::MakeObject();
};

// On the host. `record`: where the last listing is kept.
// The paths of the listing that the host lacks.
std::vector<std::string> MissingFiles(const Json& listing, const std::string& record);
// Unpacks what was missing, and keeps the listing. `archive`: empty when nothing was.
absl::Status TakeFiles(const Json& listing, const std::string& archive, const std::string& record);
// "~/x" and "/x".
std::string PathOnHost(const std::string& target);

}  // namespace rt
