#include "common/programs/served_mounts.h"

#include <filesystem>

#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Bytes kListingMax = Bytes{64} << 20;

std::string ArchiveOf(const std::string& file) { return file + ".tar.gz"; }

absl::StatusOr<Json> ReadServed(const std::string& file) {
  RT_ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kListingMax));
  return Json::Parse(text);
}

}  // namespace

absl::Status WriteServedMount(const std::string& file, const Json& listing,
                              const std::string& archive) {
  RT_RETURN_IF_ERROR(EnsureDirectory(std::filesystem::path(file).parent_path().string()));
  RT_RETURN_IF_ERROR(WriteFileAtomic(ArchiveOf(file), archive));
  const Json served = Json::MakeObject({{"listing", listing}, {"digest", Digest(archive)}});
  return WriteFileAtomic(file, served.Dump() + "\n");
}

bool IsServed(const std::string& file, const Json& listing) {
  const absl::StatusOr<Json> served = ReadServed(file);
  const Json* known = served.ok() ? served->Find("listing") : nullptr;
  return known != nullptr && *known == listing && Exists(ArchiveOf(file));
}

std::vector<std::pair<std::string, std::string>> ServedMounts::List() const {
  std::vector<std::pair<std::string, std::string>> mounts;
  for (const std::string& file : files_) {
    const absl::StatusOr<Json> served = ReadServed(file);
    const Json* listing = served.ok() ? served->Find("listing") : nullptr;
    if (listing != nullptr) mounts.emplace_back(listing->Dump(), served->GetString("digest"));
  }
  return mounts;
}

absl::StatusOr<std::shared_ptr<const std::string>> ServedMounts::Bytes(const std::string& digest) {
  std::lock_guard lock(mutex_);
  if (const auto known = bytes_[digest].lock(); known != nullptr) return known;
  std::erase_if(bytes_, [](const auto& one) { return one.second.expired(); });
  for (const std::string& file : files_) {
    const absl::StatusOr<Json> served = ReadServed(file);
    if (!served.ok() || served->GetString("digest") != digest) continue;
    RT_ASSIGN_OR_RETURN(std::string bytes, ReadFile(ArchiveOf(file), limits::kMountArchiveMax));
    auto shared = std::make_shared<const std::string>(std::move(bytes));
    bytes_[digest] = shared;
    return shared;
  }
  return NotFound("no files of this digest are served");
}

}  // namespace rt
