// Where bytes live: content-addressed chunks and the immutable manifests that name them. One
// contract (tests/contract/blob_store_suite.h) for every implementation. Thread-safe.
//   PutChunk   verifies that the bytes have this digest; durable when it returns; idempotent.
//   PutChunks  the same of many at once, which costs less: small ones share a pack or a sync. On an
// error some of them may be there.
//   PutManifest is refused (FailedPrecondition) while a chunk that it names is missing; durable.
//   GetChunk   verifies; DataLoss when the bytes are not what their name says, NotFound when
// absent.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "common/cas/store_space.h"

namespace rt {

struct NamedChunk {
  std::string digest;
  std::string_view bytes;
};

// Where a tree can be read from.
class BlobSource {
 public:
  virtual ~BlobSource() = default;
  virtual absl::StatusOr<std::string> GetChunk(const std::string& digest) = 0;
  virtual absl::StatusOr<std::string> GetManifest(const std::string& digest) = 0;
};

class BlobStore : public BlobSource {
 public:
  // A chunk that is not missing stays for as long as an unnamed one does (SweptStore).
  virtual absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::vector<std::string>& digests) = 0;
  virtual absl::Status PutChunk(const std::string& digest, std::string_view bytes) = 0;
  virtual absl::Status PutChunks(const std::vector<NamedChunk>& chunks) {
    for (const NamedChunk& chunk : chunks)
      if (absl::Status status = PutChunk(chunk.digest, chunk.bytes); !status.ok()) return status;
    return absl::OkStatus();
  }
  // Returns the manifest's digest.
  virtual absl::StatusOr<std::string> PutManifest(std::string_view text) = 0;
};

struct Swept {
  size_t manifests = 0;
  size_t chunks = 0;
  Bytes bytes = 0;       // Of what was removed.
  size_t condemned = 0;  // Objects that a later sweep will remove, unless they are named again.
  size_t waiting = 0;    // Of all that nothing names: what still has its grace.
  size_t rewritten = 0;  // Packs.
};

// A store whose garbage can be removed. Only the head sweeps, with what its state names.
class SweptStore : public BlobStore {
 public:
  // Removes manifests that are not live, and chunks that no kept manifest names, once nobody
  // counted on them (put, or found by FindMissing) for `grace` ms: a push may be under way. Its
  // manifest lies in the store before the state names it. A crash leaves garbage at worst.
  virtual absl::StatusOr<Swept> Sweep(const std::set<std::string>& live_manifests,
                                      Millis grace) = 0;
  // Whether something was refused for want of room since the last sweep.
  virtual bool IsShortOfSpace() const { return false; }
  // Notices when what was refused has room by now; for a thread that looks now and then.
  virtual void LookAgain() {}
  // What lies there, garbage too: every chunk, pack and manifest with the bytes it is stored in.
  virtual StoreUse use() const { return {}; }
};

}  // namespace rt
