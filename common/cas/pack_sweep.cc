#include <algorithm>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/cas/manifest.h"
#include "common/cas/pack_store.h"
#include "common/cas/parallel.h"
#include "common/run/failpoint.h"

namespace rt {
namespace {

constexpr char kClockKey[] = "last-sweep";
constexpr double kLiveMin = 0.5;  // Of a pack's bytes; below, what lives moves to a new one.

}  // namespace

// One sweep: looks at everything first, then writes, and removes last.
class PackStore::Sweeper {
 public:
  // Puts below `first_put` are over.
  Sweeper(PackStore& store, const std::set<std::string>& live_manifests, Millis grace,
          uint64_t first_put)
      : store_(store), objects_(store.objects_), live_manifests_(live_manifests), grace_(grace),
        first_put_(first_put) {}

  absl::StatusOr<Swept> Run() {
    RT_RETURN_IF_ERROR(Look());
    RT_RETURN_IF_ERROR(ReadManifests());
    JudgeObjects();
    // Removing must go on when there is no room for new packs.
    absl::Status rewritten = Rewrite();
    if (!rewritten.ok() && !absl::IsResourceExhausted(rewritten)) return rewritten;
    RT_RETURN_IF_ERROR(Condemn());
    RT_RETURN_IF_ERROR(FailAt("head.sweep.after_tombstones"));
    RT_RETURN_IF_ERROR(Remove());
    return swept_;
  }

 private:
  absl::Status Look() {
    // A write tells the store's own time.
    RT_RETURN_IF_ERROR(objects_.Put(kClockKey, ""));
    RT_ASSIGN_OR_RETURN(std::optional<ObjectInfo> clock, objects_.Look(kClockKey));
    if (!clock.has_value()) return absl::UnavailableError("a sweep runs elsewhere");
    now_ = clock->changed_at;
    RT_ASSIGN_OR_RETURN(std::vector<ObjectInfo> tombstones, ListAll(objects_, "condemned/"));
    for (const ObjectInfo& tombstone : tombstones)
      tombstones_.emplace(tombstone.key.substr(tombstone.key.find('/') + 1), tombstone.changed_at);
    for (const char* prefix : {"manifests/", "packs/", "chunks/"}) {
      RT_ASSIGN_OR_RETURN(std::vector<ObjectInfo> found, ListAll(objects_, prefix));
      for (ObjectInfo& object : found) all_.emplace(object.key, object);
    }
    Recount();
    return absl::OkStatus();
  }

  // What the store believes to hold is what was listed, but for what came while it was.
  void Recount() {
    std::lock_guard lock(store_.mutex_);
    std::vector<std::string> gone;
    for (const auto& [key, held] : store_.held_)
      if (held.put < first_put_ && !all_.contains(key)) gone.push_back(key);
    for (const std::string& key : gone) store_.Drop(key);
    for (const auto& [key, object] : all_) {
      auto held = store_.held_.find(key);
      if (held == store_.held_.end() || held->second.put < first_put_)
        store_.Hold(key, {.bytes = object.bytes});
    }
  }

  bool GraceIsOver(const std::string& key) const {
    auto tombstone = tombstones_.find(key);
    auto object = all_.find(key);
    // A tombstone from before the object is of an earlier one of that name.
    return tombstone != tombstones_.end() && object != all_.end() &&
           object->second.changed_at <= tombstone->second && now_ - tombstone->second >= grace_;
  }

  // Chunks named by live manifests, and by those that still have their grace.
  absl::Status ReadManifests() {
    std::vector<std::string> digests;
    for (const auto& [key, object] : all_) {
      if (!key.starts_with("manifests/")) continue;
      std::string digest = DigestOfKey(key);
      const bool live = live_manifests_.contains(digest);
      if (!live) dead_.insert(key);
      if (live || !GraceIsOver(key)) digests.push_back(std::move(digest));
    }
    std::mutex mutex;
    return ForEachParallel(digests.size(), store_.options_.calls_at_once,
                           [&](size_t i) -> absl::Status {
      const bool live = live_manifests_.contains(digests[i]);
      auto text = store_.ReadManifest(digests[i]);
      auto manifest = text.ok() ? ParseManifest(*text) : text.status();
      // A live one that cannot be read could name any chunk: then nothing is removed.
      if (!manifest.ok() && (live || !absl::IsDataLoss(manifest.status())))
        return Annotate(manifest.status(), "manifest " + digests[i]);
      if (!manifest.ok()) return absl::OkStatus();
      std::vector<std::string> chunks = ChunksOf(*manifest);
      std::lock_guard lock(mutex);
      (live ? named_ : spared_).insert(chunks.begin(), chunks.end());
      return absl::OkStatus();
    });
  }

  // What of each object lives. Objects that own no chunk (a pack that was rewritten) are dead.
  void JudgeObjects() {
    std::map<std::string, Bytes> live_bytes;  // What a pack of them alone would have.
    std::lock_guard lock(store_.mutex_);
    for (const auto& [digest, place] : store_.places_) {
      const bool named = named_.contains(digest);
      if (named || spared_.contains(digest)) spared_keys_.insert(place.key);
      if (!named) continue;
      live_bytes[place.key] += place.entry.record_bytes() + kIndexEntryBytes;
      if (place.packed) live_entries_[place.key].push_back(place.entry);
    }
    for (const auto& [key, object] : all_) {
      if (key.starts_with("manifests/")) continue;
      const auto live = live_bytes.find(key);
      if (live == live_bytes.end()) {
        dead_.insert(key);
      } else if (key.starts_with("packs/") &&
                 static_cast<double>(live->second) < kLiveMin * static_cast<double>(object.bytes)) {
        rewritten_.push_back(key);
      }
    }
  }

  absl::Status Rewrite() {
    PackBuilder builder;
    for (const std::string& key : rewritten_) {
      for (const PackEntry& entry : live_entries_[key]) {
        auto record = objects_.GetRange(key, entry.offset, entry.record_bytes());
        // Damage stays where it is, and shows when the chunk is wanted.
        if (!record.ok() || !DecodeRecord(entry.digest, *record).ok()) {
          RT_LOG(kError) << "sweep: chunk " << entry.digest << " is damaged in " << key;
          continue;
        }
        builder.AddRecord(entry, *record);
        if (builder.size() < store_.options_.pack_bytes) continue;
        RT_RETURN_IF_ERROR(PutRewritten(builder));
        builder = PackBuilder();
      }
      ++swept_.rewritten;
    }
    return builder.entries().empty() ? absl::OkStatus() : PutRewritten(builder);
  }

  // A pack beyond the quota, at most: else a store full of packs that are half dead had no way to
  // get room again.
  absl::Status PutRewritten(PackBuilder& builder) {
    return store_.PutPack(builder, store_.options_.pack_bytes + limits::kChunkBytes);
  }

  absl::Status Condemn() {
    std::vector<std::string> stale;  // Tombstones of what lives, or is gone.
    for (const auto& [key, at] : tombstones_)
      if (!dead_.contains(key)) stale.push_back(key);
    RT_RETURN_IF_ERROR(store_.Revive({stale.begin(), stale.end()}));
    std::vector<std::string> fresh;
    for (const std::string& key : dead_) {
      auto tombstone = tombstones_.find(key);
      if (tombstone == tombstones_.end() || tombstone->second < all_.at(key).changed_at)
        fresh.push_back(key);
    }
    swept_.condemned = fresh.size();
    return ForEachParallel(fresh.size(), store_.options_.calls_at_once,
                           [&](size_t i) -> absl::Status {
      RT_RETURN_IF_ERROR(FailAt("head.sweep.before_tombstone"));
      absl::Status status = objects_.Put("condemned/" + fresh[i], "");
      std::lock_guard lock(store_.mutex_);
      if (status.ok()) store_.condemned_.insert(fresh[i]);
      return status;
    });
  }

  absl::Status Remove() {
    std::vector<std::string> over;
    for (const std::string& key : dead_)
      if (GraceIsOver(key) && !spared_keys_.contains(key)) over.push_back(key);
    swept_.waiting = dead_.size() - over.size();
    return ForEachParallel(over.size(), store_.options_.calls_at_once,
                           [&](size_t i) { return RemoveOne(over[i]); });
  }

  // Under the store's mutex. Returns how many chunks it held.
  size_t ForgetPlaces(const std::string& key) {
    if (key.starts_with("packs/"))
      return std::erase_if(store_.places_,
                           [&](const auto& place) { return place.second.key == key; });
    auto found = store_.places_.find(DigestOfKey(key));
    if (found == store_.places_.end() || found->second.key != key) return 0;
    store_.places_.erase(found);
    return 1;
  }

  // A tombstone that outlives its object is harmless: it is older than any new one of that name.
  absl::Status Delete(const std::string& key) {
    RT_RETURN_IF_ERROR(FailAt("head.sweep.before_delete"));
    RT_RETURN_IF_ERROR(objects_.Delete(key));
    RT_RETURN_IF_ERROR(FailAt("head.sweep.after_delete"));
    return objects_.Delete("condemned/" + key);
  }

  absl::Status RemoveOne(const std::string& key) {
    size_t chunks = 0;
    {
      std::lock_guard lock(store_.mutex_);
      if (!store_.condemned_.contains(key)) return absl::OkStatus();  // Somebody counts on it.
      store_.deleting_.insert(key);
      chunks = ForgetPlaces(key);
    }
    absl::Status status = Delete(key);
    std::lock_guard lock(store_.mutex_);
    store_.deleting_.erase(key);
    store_.changed_.notify_all();
    if (!status.ok()) return status;
    store_.condemned_.erase(key);
    store_.Drop(key);
    swept_.chunks += chunks;
    swept_.manifests += key.starts_with("manifests/");
    swept_.bytes += all_.at(key).bytes;
    return absl::OkStatus();
  }

  PackStore& store_;
  ObjectStore& objects_;
  const std::set<std::string>& live_manifests_;
  const Millis grace_;
  const uint64_t first_put_;
  Millis now_ = 0;
  std::map<std::string, Millis> tombstones_;  // By the key that they condemn.
  std::map<std::string, ObjectInfo> all_;
  std::set<std::string> named_, spared_;  // Chunks.
  std::set<std::string> spared_keys_;
  std::set<std::string> dead_;  // Keys.
  std::map<std::string, std::vector<PackEntry>> live_entries_;
  std::vector<std::string> rewritten_;
  Swept swept_;
};

absl::StatusOr<Swept> PackStore::Sweep(const std::set<std::string>& live_manifests, Millis grace) {
  std::lock_guard one(sweep_mutex_);
  space_.BeginSweep();
  uint64_t next = 0;
  {
    std::unique_lock lock(mutex_);
    next = next_put_;
    changed_.wait(lock, [&] { return putting_.empty() || *putting_.begin() >= next; });
  }
  return Sweeper(*this, live_manifests, grace, next).Run();
}

}  // namespace rt
