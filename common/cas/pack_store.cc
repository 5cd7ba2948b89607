#include "common/cas/pack_store.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/cas/manifest.h"
#include "common/cas/parallel.h"

namespace rt {
namespace {

constexpr size_t kPage = 1'000;
constexpr Bytes kTailBytes = Bytes{64} << 10;  // Of a pack, read first: the index of most.

std::string ChunkKey(const std::string& digest) {
  return "chunks/" + std::string(DigestHex(digest).substr(0, 2)) + "/" + KeyName(digest);
}

std::string ManifestKey(const std::string& digest) { return "manifests/" + KeyName(digest); }

absl::Status CheckDigest(const std::string& digest) {
  if (IsDigest(digest)) return absl::OkStatus();
  return Invalid("'" + EscapeControl(digest.substr(0, 80)) + "' is not a digest");
}

}  // namespace

absl::StatusOr<std::vector<ObjectInfo>> ListAll(ObjectStore& objects, const std::string& prefix) {
  std::vector<ObjectInfo> all;
  while (true) {
    RT_ASSIGN_OR_RETURN(std::vector<ObjectInfo> page,
                        objects.List(prefix, all.empty() ? "" : all.back().key, kPage));
    const bool last = page.size() < kPage;
    std::move(page.begin(), page.end(), std::back_inserter(all));
    if (last) return all;
  }
}

std::string KeyName(std::string_view digest) {
  std::string name(digest);
  std::replace(name.begin(), name.end(), ':', '-');
  return name;
}

std::string DigestOfKey(std::string_view key) {
  std::string digest(key.substr(key.rfind('/') + 1));
  std::replace(digest.begin(), digest.end(), '-', ':');
  return IsDigest(digest) ? digest : "";
}

// A put under way. What it found to be there, or wrote, must not go before a sweep has seen what it
// is for: the next sweep waits for those that began before it.
class PackStore::Putting {
 public:
  explicit Putting(PackStore& store) : store_(store) {
    std::lock_guard lock(store.mutex_);
    number_ = store.next_put_++;
    store.putting_.insert(number_);
  }
  ~Putting() {
    std::lock_guard lock(store_.mutex_);
    store_.putting_.erase(number_);
    store_.changed_.notify_all();
  }
  Putting(const Putting&) = delete;
  Putting& operator=(const Putting&) = delete;
  uint64_t number() const { return number_; }

 private:
  PackStore& store_;
  uint64_t number_ = 0;
};

absl::StatusOr<std::unique_ptr<PackStore>> PackStore::Open(ObjectStore& objects,
                                                           PackOptions options) {
  std::unique_ptr<PackStore> store(new PackStore(objects, options));
  RT_RETURN_IF_ERROR(store->Load());
  return store;
}

absl::Status PackStore::Load() {
  RT_ASSIGN_OR_RETURN(std::vector<ObjectInfo> tombstones, ListAll(objects_, "condemned/"));
  for (const ObjectInfo& tombstone : tombstones)
    condemned_.insert(tombstone.key.substr(tombstone.key.find('/') + 1));
  RT_ASSIGN_OR_RETURN(std::vector<ObjectInfo> packs, ListAll(objects_, "packs/"));
  // Of two packs with the same chunk the one that stays owns it.
  std::stable_partition(packs.begin(), packs.end(), [&](const ObjectInfo& pack) {
    return condemned_.contains(pack.key);
  });
  std::vector<std::vector<PackEntry>> entries(packs.size());
  RT_RETURN_IF_ERROR(ForEachParallel(packs.size(), options_.calls_at_once, [&](size_t i) {
    auto loaded = LoadPack(packs[i]);
    if (loaded.ok()) entries[i] = std::move(*loaded);
    return loaded.status();
  }));
  for (size_t i = 0; i < packs.size(); ++i) Own(packs[i].key, entries[i]);
  RT_ASSIGN_OR_RETURN(std::vector<ObjectInfo> chunks, ListAll(objects_, "chunks/"));
  for (const ObjectInfo& chunk : chunks)
    if (std::string digest = DigestOfKey(chunk.key); !digest.empty())
      places_.insert_or_assign(digest, Place{.key = chunk.key});
  RT_ASSIGN_OR_RETURN(std::vector<ObjectInfo> manifests, ListAll(objects_, "manifests/"));
  for (const auto* found : {&packs, &chunks, &manifests})
    for (const ObjectInfo& object : *found) Hold(object.key, {.bytes = object.bytes});
  return absl::OkStatus();
}

Bytes PackStore::HeldBytes(const std::string& key) const {
  auto found = held_.find(key);
  return found == held_.end() ? 0 : found->second.bytes;
}

void PackStore::Hold(const std::string& key, const Held& held) {
  space_.Count(held.bytes - HeldBytes(key));
  held_.insert_or_assign(key, held);
}

void PackStore::Drop(const std::string& key) {
  space_.Count(-HeldBytes(key));
  held_.erase(key);
}

absl::StatusOr<std::vector<PackEntry>> PackStore::LoadPack(const ObjectInfo& pack) {
  const Bytes first = std::min(pack.bytes, kTailBytes);
  RT_ASSIGN_OR_RETURN(std::string tail, objects_.GetRange(pack.key, pack.bytes - first, first));
  auto needed = IndexBytes(tail, pack.bytes);
  if (needed.ok() && *needed > first) {
    RT_ASSIGN_OR_RETURN(tail, objects_.GetRange(pack.key, pack.bytes - *needed, *needed));
  } else if (needed.ok()) {
    tail.erase(0, tail.size() - static_cast<size_t>(*needed));
  }
  auto entries = needed.ok() ? ParseIndex(tail, pack.bytes) : needed.status();
  if (entries.ok()) return entries;
  RT_ASSIGN_OR_RETURN(std::string whole, objects_.Get(pack.key));
  auto scanned = ScanPack(whole);
  RT_LOG(kWarning) << pack.key << ": " << MessageOf(entries.status()) << "; " << scanned.size()
                   << " chunks were found by reading it";
  return scanned;
}

void PackStore::Own(const std::string& pack, const std::vector<PackEntry>& entries) {
  for (const PackEntry& entry : entries)
    places_.insert_or_assign(entry.digest, Place{.key = pack, .entry = entry, .packed = true});
}

absl::StatusOr<std::vector<std::string>> PackStore::FindMissing(
    const std::vector<std::string>& digests) {
  std::vector<std::string> missing;
  std::set<std::string> revived;
  {
    std::lock_guard lock(mutex_);
    for (const std::string& digest : digests) {
      RT_RETURN_IF_ERROR(CheckDigest(digest));
      auto found = places_.find(digest);
      if (found == places_.end()) {
        missing.push_back(digest);
      } else if (condemned_.erase(found->second.key) > 0) {  // At once: a sweep may be about to.
        revived.insert(found->second.key);
      }
    }
  }
  RT_RETURN_IF_ERROR(RemoveTombstones(revived));
  return missing;
}

// Somebody counts on them from now on: they get their whole grace again.
absl::Status PackStore::Revive(const std::set<std::string>& keys) {
  {
    std::lock_guard lock(mutex_);
    for (const std::string& key : keys) condemned_.erase(key);
  }
  return RemoveTombstones(keys);
}

absl::Status PackStore::RemoveTombstones(const std::set<std::string>& keys) {
  for (const std::string& key : keys) RT_RETURN_IF_ERROR(objects_.Delete("condemned/" + key));
  return absl::OkStatus();
}

absl::Status PackStore::PutObject(const Putting& putting, const std::string& key,
                                  std::string_view bytes, Bytes beyond) {
  const auto size = static_cast<Bytes>(bytes.size());
  bool revived = false;
  Bytes growth = 0;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !deleting_.contains(key); });
    revived = condemned_.erase(key) > 0;
    growth = std::max<Bytes>(0, size - HeldBytes(key));
  }
  if (revived) RT_RETURN_IF_ERROR(RemoveTombstones({key}));
  RT_ASSIGN_OR_RETURN(StoreSpace::Part space,
                      space_.Take({.growth = growth, .written = size, .beyond = beyond}));
  // Also when it exists: that heals one that was damaged.
  absl::Status status = objects_.Put(key, bytes);
  if (absl::IsResourceExhausted(status)) space_.Refused(status, size);
  // Where it is open whether it was done, the next sweep will see.
  const bool is_there =
      status.ok() || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  if (!is_there) return status;
  std::lock_guard lock(mutex_);
  space.Keep(size, HeldBytes(key));
  held_.insert_or_assign(key, Held{.bytes = size, .put = putting.number()});
  return status;
}

absl::Status PackStore::PutChunk(const std::string& digest, std::string_view bytes) {
  RT_RETURN_IF_ERROR(VerifyDigest(digest, bytes));
  const Putting putting(*this);
  Place place{.key = ChunkKey(digest)};
  RT_RETURN_IF_ERROR(PutObject(putting, place.key, EncodeRecord(digest, bytes)));
  std::lock_guard lock(mutex_);
  places_.insert_or_assign(digest, std::move(place));
  return absl::OkStatus();
}

absl::Status PackStore::PutChunks(const std::vector<NamedChunk>& chunks) {
  std::vector<const NamedChunk*> large;
  std::vector<PackBuilder> packs;
  for (const NamedChunk& chunk : chunks) {
    RT_RETURN_IF_ERROR(CheckDigest(chunk.digest));
    if (static_cast<Bytes>(chunk.bytes.size()) >= options_.small_below || chunks.size() == 1) {
      large.push_back(&chunk);
      continue;
    }
    RT_RETURN_IF_ERROR(VerifyDigest(chunk.digest, chunk.bytes));
    if (packs.empty() || packs.back().size() >= options_.pack_bytes) packs.emplace_back();
    packs.back().Add(chunk.digest, chunk.bytes);
  }
  return ForEachParallel(large.size() + packs.size(), options_.calls_at_once, [&](size_t i) {
    return i < large.size() ? PutChunk(large[i]->digest, large[i]->bytes)
                            : PutPack(packs[i - large.size()]);
  });
}

absl::Status PackStore::PutPack(PackBuilder& builder, Bytes beyond) {
  // By what its index says, so that a pack of that name never changes under a reader.
  std::string named;
  for (const PackEntry& entry : builder.entries())
    named += entry.digest + " " + std::to_string(entry.stored_bytes) + "\n";
  const std::string key = "packs/" + std::string(DigestHex(Digest(named)));
  const std::vector<PackEntry> entries = builder.entries();
  const Putting putting(*this);
  RT_RETURN_IF_ERROR(PutObject(putting, key, builder.Finish(), beyond));
  std::lock_guard lock(mutex_);
  Own(key, entries);
  return absl::OkStatus();
}

absl::StatusOr<std::string> PackStore::GetChunk(const std::string& digest) {
  RT_RETURN_IF_ERROR(CheckDigest(digest));
  Place place{.key = ChunkKey(digest)};  // When it is unknown: perhaps another process put it.
  {
    std::lock_guard lock(mutex_);
    if (auto found = places_.find(digest); found != places_.end()) place = found->second;
  }
  auto record = place.packed
                    ? objects_.GetRange(place.key, place.entry.offset, place.entry.record_bytes())
                    : objects_.Get(place.key);
  if (absl::IsNotFound(record.status())) {
    Forget(digest, place);
    return NotFound("no chunk " + digest);
  }
  if (!record.ok()) return record.status();
  auto bytes = DecodeRecord(digest, *record);
  if (bytes.ok()) return bytes;
  Forget(digest, place);
  return Annotate(bytes.status(), place.key);
}

// What was lost is missing from now on, so that whoever has the bytes pushes them again.
void PackStore::Forget(const std::string& digest, const Place& place) {
  std::lock_guard lock(mutex_);
  auto found = places_.find(digest);
  if (found == places_.end() || found->second.key != place.key) return;
  RT_LOG(kError) << "chunk " << digest << " is lost or damaged in " << place.key;
  places_.erase(found);
}

absl::StatusOr<std::string> PackStore::PutManifest(std::string_view text) {
  RT_ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(text));
  const Putting putting(*this);
  RT_ASSIGN_OR_RETURN(std::vector<std::string> missing, FindMissing(ChunksOf(manifest)));
  if (!missing.empty())
    return absl::FailedPreconditionError(
        ToAbsl("the manifest names the missing chunk " + missing.front()));
  std::string digest = Digest(text);
  RT_RETURN_IF_ERROR(PutObject(putting, ManifestKey(digest), text));
  return digest;
}

absl::StatusOr<std::string> PackStore::GetManifest(const std::string& digest) {
  RT_RETURN_IF_ERROR(CheckDigest(digest));
  bool condemned = false;
  {
    std::lock_guard lock(mutex_);
    condemned = condemned_.contains(ManifestKey(digest));
  }
  // Its chunks will be read: they and it get their whole grace again.
  if (condemned) RT_RETURN_IF_ERROR(Revive({ManifestKey(digest)}));
  return ReadManifest(digest);
}

absl::StatusOr<std::string> PackStore::ReadManifest(const std::string& digest) {
  auto text = objects_.Get(ManifestKey(digest));
  if (absl::IsNotFound(text.status())) return NotFound("no manifest " + digest);
  if (!text.ok()) return text.status();
  RT_RETURN_IF_ERROR(VerifyDigest(digest, *text));
  return text;
}

}  // namespace rt
