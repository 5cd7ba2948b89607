// RemoteStore: the head's blob store as its workers and clients see it, over rt.v1.BlobService.
// Give it a bulk channel (MakeChannel(…, bulk = true)), never the control channel. Chunks travel
// in pieces of 1 MiB and are verified on both sides. UNAVAILABLE is retried with growing pauses
// until `retry_for` ms have passed; every other error is returned at once. Thread-safe; calls
// block.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time.h"
#include "common/cas/blob_store.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace rt {

class RemoteStore : public BlobStore {
 public:
  explicit RemoteStore(std::shared_ptr<grpc::Channel> channel, Millis retry_for = 30'000);
  ~RemoteStore() override;

  absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::vector<std::string>& digests) override;
  absl::Status PutChunk(const std::string& digest, std::string_view bytes) override;
  // In one stream, so that the head can store small ones together.
  absl::Status PutChunks(const std::vector<NamedChunk>& chunks) override;
  absl::StatusOr<std::string> GetChunk(const std::string& digest) override;
  absl::StatusOr<std::string> PutManifest(std::string_view text) override;
  absl::StatusOr<std::string> GetManifest(const std::string& digest) override;
  size_t chunks_pushed() const;  // By this object.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rt
