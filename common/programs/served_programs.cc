#include "common/programs/served_programs.h"

#include <utility>

#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/programs/programs_archive.h"
#include "common/run/files.h"

namespace rt {

absl::StatusOr<std::shared_ptr<const std::string>> ServedPrograms::Read() {
  if (auto bytes = bytes_.lock()) return bytes;
  if (file_.empty()) {
    RT_ASSIGN_OR_RETURN(ProgramsArchive archive, ProgramsArchive::Open(directory_));
    RT_ASSIGN_OR_RETURN(file_, archive.File());
  }
  RT_ASSIGN_OR_RETURN(std::string read, ReadFile(file_, limits::kArchiveMax));
  auto bytes = std::make_shared<const std::string>(std::move(read));
  bytes_ = bytes;
  return bytes;
}

absl::StatusOr<std::string> ServedPrograms::Sha256() {
  std::lock_guard lock(mutex_);
  if (!sha256_.empty()) return sha256_;
  RT_ASSIGN_OR_RETURN(const auto bytes, Read());
  Hasher hasher(HashKind::kSha256);
  hasher.Update(*bytes);
  sha256_ = std::string(DigestHex(hasher.Finish()));
  return sha256_;
}

absl::StatusOr<std::shared_ptr<const std::string>> ServedPrograms::Bytes() {
  std::lock_guard lock(mutex_);
  return Read();
}

}  // namespace rt
