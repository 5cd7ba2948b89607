// PackStore: a blob store over any object store (docs/checkpoint-format.md).
//   chunks/<ab>/<digest>   a chunk of 1 MiB or more, or one that came alone: one record
//   packs/<hash>           many small chunks that came together (common/cas/pack.h)
//   manifests/<digest>     the text
//   condemned/<key>        a tombstone: a sweep found that nothing names <key>
// (':' of a digest is '-' in a key.) Everything is written once, the manifest last. What is where
// is kept in memory and found again at Open by listing; an object that vanished or is damaged is
// forgotten when it is read, so that the next push of its chunk heals it. How large each object is
// is known as well: what the store holds is counted, garbage too, and has a quota.
// One process at a time may have it open for writing. Thread-safe.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/cas/blob_store.h"
#include "common/cas/object_store.h"
#include "common/cas/pack.h"

namespace rt {

struct PackOptions {
  Bytes small_below = Bytes{1} << 20;  // Chunks below go into packs.
  Bytes pack_bytes = Bytes{32} << 20;  // A pack is closed at this size.
  size_t calls_at_once = 8;            // To the object store, by one PutChunks, Open or Sweep.
  Bytes quota = 0;        // What chunks, packs and manifests may have together; 0: no bound.
  std::string directory;  // Whose file system must keep some room; empty: on none of ours.
};

class PackStore : public SweptStore {
 public:
  static absl::StatusOr<std::unique_ptr<PackStore>> Open(ObjectStore& objects,
                                                         PackOptions options = {});

  absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::vector<std::string>& digests) override;
  absl::Status PutChunk(const std::string& digest, std::string_view bytes) override;
  absl::Status PutChunks(const std::vector<NamedChunk>& chunks) override;
  absl::StatusOr<std::string> GetChunk(const std::string& digest) override;
  absl::StatusOr<std::string> PutManifest(std::string_view text) override;
  absl::StatusOr<std::string> GetManifest(const std::string& digest) override;

  // In two phases: what nothing names is condemned; a later sweep, `grace` after that, removes it
  // unless it was counted on meanwhile. Packs below half live are rewritten. Times are the
  // object store's.
  absl::StatusOr<Swept> Sweep(const std::set<std::string>& live_manifests, Millis grace) override;
  bool IsShortOfSpace() const override { return space_.IsShort(); }
  void LookAgain() override { space_.LookAgain(); }
  StoreUse use() const override { return space_.use(); }

 private:
  struct Place {
    std::string key;  // Of the pack, or of the chunk's own object.
    PackEntry entry;  // Within a pack.
    bool packed = false;
  };
  struct Held {  // An object.
    Bytes bytes = 0;
    uint64_t put = 0;  // The number of the put that brought it; 0: it was found.
  };
  class Sweeper;
  class Putting;

  PackStore(ObjectStore& objects, const PackOptions& options)
      : objects_(objects), options_(options), space_(options.quota, options.directory) {}
  absl::Status Load();
  absl::StatusOr<std::string> ReadManifest(const std::string& digest);  // Counts on nothing.
  absl::StatusOr<std::vector<PackEntry>> LoadPack(const ObjectInfo& pack);
  void Own(const std::string& pack, const std::vector<PackEntry>& entries);
  // Of a sweep: `beyond` bytes above the quota, if need be.
  absl::Status PutPack(PackBuilder& builder, Bytes beyond = 0);
  // Puts what must not be swept at the same time, without its tombstone.
  absl::Status PutObject(const Putting& putting, const std::string& key, std::string_view bytes,
                         Bytes beyond = 0);
  Bytes HeldBytes(const std::string& key) const;  // Under mutex_, as the next two.
  void Hold(const std::string& key, const Held& held);
  void Drop(const std::string& key);
  absl::Status Revive(const std::set<std::string>& keys);
  absl::Status RemoveTombstones(const std::set<std::string>& keys);
  void Forget(const std::string& digest, const Place& place);

  ObjectStore& objects_;
  const PackOptions options_;
  StoreSpace space_;
  std::mutex sweep_mutex_;  // One sweep at a time.
  std::mutex mutex_;
  std::condition_variable changed_;  // deleting_, putting_.
  uint64_t next_put_ = 1;
  std::set<uint64_t> putting_;  // Puts that are under way.
  std::map<std::string, Place> places_;  // By digest.
  std::map<std::string, Held> held_;     // By key: what room_ counts.
  std::set<std::string> condemned_;      // Keys with a tombstone.
  std::set<std::string> deleting_;       // Keys that a sweep removes right now.
};

// Every object below a prefix.
absl::StatusOr<std::vector<ObjectInfo>> ListAll(ObjectStore& objects, const std::string& prefix);
// "b3:ab…" as it stands in a key, and back ("" when it is none).
std::string KeyName(std::string_view digest);
std::string DigestOfKey(std::string_view key);

}  // namespace rt
