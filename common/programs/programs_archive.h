// The programs of this very installation as one archive that a host can run: bin/ (with rt-probe
// and rt-gpu-suspend where they are installed), lib/rt/ with the shared libraries that they link
// (not those of the C library), and share/rt/python. Its digest names the contents; the archive
// itself is made when it is first needed, and kept.
// Thread-safe after Open.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rt {

class ProgramsArchive {
 public:
  // `directory`: where the archive is kept. Reads the files, or only their times when an earlier
  // call has read them. An error names what the installation lacks.
  static absl::StatusOr<ProgramsArchive> Open(const std::string& directory);
  ProgramsArchive(ProgramsArchive&& other) noexcept;

  const std::string& digest() const { return digest_; }  // 64 hex digits.
  absl::StatusOr<std::string> File();                    // Its path; makes it first.

 private:
  struct Part {
    std::string source, target;  // `target`: in the archive.
  };
  ProgramsArchive() = default;
  static absl::StatusOr<std::vector<Part>> Parts();
  static absl::StatusOr<std::string> StampOf(const std::vector<Part>& parts);
  static absl::StatusOr<std::string> DigestOf(const std::vector<Part>& parts);
  absl::Status Make(const std::string& file) const;

  std::string directory_, digest_;
  std::vector<Part> parts_;
  std::mutex mutex_;
};

}  // namespace rt
