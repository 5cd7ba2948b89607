#include "common/cas/mem_store.h"

#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/cas/manifest.h"

namespace rt {

absl::StatusOr<std::vector<std::string>> MemStore::FindMissing(
    const std::vector<std::string>& digests) {
  std::lock_guard lock(mutex_);
  std::vector<std::string> missing;
  for (const std::string& digest : digests) {
    if (!IsDigest(digest)) return Invalid("FindMissing: a malformed digest");
    if (!chunks_.contains(digest)) missing.push_back(digest);
  }
  return missing;
}

absl::Status MemStore::PutChunk(const std::string& digest, std::string_view bytes) {
  RT_RETURN_IF_ERROR(VerifyDigest(digest, bytes));
  std::lock_guard lock(mutex_);
  chunks_.insert_or_assign(digest, std::string(bytes));
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemStore::GetChunk(const std::string& digest) {
  std::lock_guard lock(mutex_);
  auto found = chunks_.find(digest);
  if (found == chunks_.end()) return NotFound("no chunk " + digest);
  RT_RETURN_IF_ERROR(VerifyDigest(digest, found->second));
  return found->second;
}

absl::StatusOr<std::string> MemStore::PutManifest(std::string_view text) {
  RT_ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(text));
  std::lock_guard lock(mutex_);
  for (const std::string& chunk : ChunksOf(manifest))
    if (!chunks_.contains(chunk))
      return absl::FailedPreconditionError(ToAbsl("the manifest names the missing chunk " + chunk));
  std::string digest = Digest(text);
  manifests_.insert_or_assign(digest, std::string(text));
  return digest;
}

absl::StatusOr<std::string> MemStore::GetManifest(const std::string& digest) {
  std::lock_guard lock(mutex_);
  auto found = manifests_.find(digest);
  if (found == manifests_.end()) return NotFound("no manifest " + digest);
  RT_RETURN_IF_ERROR(VerifyDigest(digest, found->second));
  return found->second;
}

void MemStore::Damage(const std::string& digest) {
  std::lock_guard lock(mutex_);
  auto found = chunks_.find(digest);
  if (found == chunks_.end()) return;
  if (found->second.empty()) {
    found->second.push_back('x');
  } else {
    found->second[0] = static_cast<char>(found->second[0] ^ 1);
  }
}

void MemStore::Forget(const std::string& digest) {
  std::lock_guard lock(mutex_);
  chunks_.erase(digest);
  manifests_.erase(digest);
}

size_t MemStore::chunk_count() const {
  std::lock_guard lock(mutex_);
  return chunks_.size();
}

}  // namespace rt
