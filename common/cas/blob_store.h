// Where bytes live: content-addressed chunks and the immutable manifests that name them. One
// contract (tests/contract/blob_store_suite.h) for every implementation. Thread-safe.
//   PutChunk   verifies that the bytes have this digest; durable when it returns; idempotent.
//   PutManifest is refused (FailedPrecondition) while a chunk that it names is missing; durable.
//   GetChunk   verifies; DataLoss when the bytes are not what their name says, NotFound when
// absent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rt {

class BlobStore {
 public:
  virtual ~BlobStore() = default;
  virtual absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::vector<std::string>& digests) = 0;
  virtual absl::Status PutChunk(const std::string& digest, std::string_view bytes) = 0;
  virtual absl::StatusOr<std::string> GetChunk(const std::string& digest) = 0;
  // Returns the manifest's digest.
  virtual absl::StatusOr<std::string> PutManifest(std::string_view text) = 0;
  virtual absl::StatusOr<std::string> GetManifest(const std::string& digest) = 0;
};

}  // namespace rt
