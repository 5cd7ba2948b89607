// MemStore: a blob store in memory, for tests and the simulator. Thread-safe. A test may look at
// and damage what it holds.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/cas/blob_store.h"

namespace rt {

class MemStore : public BlobStore {
 public:
  absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::vector<std::string>& digests) override;
  absl::Status PutChunk(const std::string& digest, std::string_view bytes) override;
  absl::StatusOr<std::string> GetChunk(const std::string& digest) override;
  absl::StatusOr<std::string> PutManifest(std::string_view text) override;
  absl::StatusOr<std::string> GetManifest(const std::string& digest) override;

  void Damage(const std::string& digest);  // Changes the bytes of a chunk that is held.
  void Forget(const std::string& digest);  // Loses a chunk or manifest.
  size_t chunk_count() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> chunks_;
  std::map<std::string, std::string> manifests_;
};

}  // namespace rt
