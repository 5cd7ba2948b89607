// The files of the cluster (`file_mounts`) as the head's port serves them to machines that it
// makes: one archive for each mount, which the agent on the head's machine keeps when a client
// sends it. Beside FILE.tar.gz, FILE is JSON with the listing and the digest of the archive; both
// are replaced when the files change, the archive first.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"

namespace rt {

// `listing`: as FileMount::Listing says it.
absl::Status WriteServedMount(const std::string& file, const Json& listing,
                              const std::string& archive);
// Whether exactly this is served.
bool IsServed(const std::string& file, const Json& listing);

// Thread-safe; its methods block.
class ServedMounts {
 public:
  explicit ServedMounts(std::vector<std::string> files) : files_(std::move(files)) {}
  // The listing of each, as JSON, and the digest of its archive. What was never written is left
  // out.
  std::vector<std::pair<std::string, std::string>> List() const;
  // In memory once for all who read it. NotFound when no mount has this digest.
  absl::StatusOr<std::shared_ptr<const std::string>> Bytes(const std::string& digest);

 private:
  const std::vector<std::string> files_;
  std::mutex mutex_;  // Held while an archive is read.
  std::map<std::string, std::weak_ptr<const std::string>> bytes_;
};

}  // namespace rt
