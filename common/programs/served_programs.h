// The archive of the head's own programs, as the head's port serves it to machines that have none
// (docs/adr/0029). It is packed once, and kept below the head's state directory. Its bytes are in
// memory while they are read, once for all readers. Thread-safe; its methods block.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

namespace rt {

class ServedPrograms {
 public:
  // `directory`: where the archive is kept.
  explicit ServedPrograms(std::string directory) : directory_(std::move(directory)) {}
  // Of the archive's bytes: 64 hex digits. Packs the archive when there is none of these programs;
  // that takes seconds. An error names what the installation lacks.
  absl::StatusOr<std::string> Sha256();
  absl::StatusOr<std::shared_ptr<const std::string>> Bytes();

 private:
  absl::StatusOr<std::shared_ptr<const std::string>> Read();

  const std::string directory_;
  std::mutex mutex_;  // Held while it is packed and read: one does it, the others wait.
  std::string file_;  // Empty: not packed yet.
  std::string sha256_;
  std::weak_ptr<const std::string> bytes_;
};

}  // namespace rt
