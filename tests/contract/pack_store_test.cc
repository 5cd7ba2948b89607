// What PackStore promises beyond the contract of blob stores: packs, sweeps, crashes.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/cas/manifest.h"
#include "common/cas/mem_objects.h"
#include "common/cas/pack_store.h"

using namespace rt;

namespace {

constexpr Millis kGrace = 1'000;

// An object store whose machine dies at the n-th write, before it is done or after.
class Dying : public ObjectStore {
 public:
  Dying(ObjectStore& below, int writes, bool after) : below_(below), left_(writes), after_(after) {}
  bool died() const { return dead_; }

  absl::Status PutIfAbsent(const std::string& key, std::string_view bytes) override {
    return Write([&] { return below_.PutIfAbsent(key, bytes); });
  }
  absl::Status Put(const std::string& key, std::string_view bytes) override {
    return Write([&] { return below_.Put(key, bytes); });
  }
  absl::Status Delete(const std::string& key) override {
    return Write([&] { return below_.Delete(key); });
  }
  absl::StatusOr<std::string> Get(const std::string& key) override {
    return Read([&] { return below_.Get(key); });
  }
  absl::StatusOr<std::string> GetRange(const std::string& key, Bytes offset, Bytes size) override {
    return Read([&] { return below_.GetRange(key, offset, size); });
  }
  absl::StatusOr<std::optional<ObjectInfo>> Look(const std::string& key) override {
    return Read([&] { return below_.Look(key); });
  }
  absl::StatusOr<std::vector<ObjectInfo>> List(const std::string& prefix, const std::string& after,
                                               size_t count_max) override {
    return Read([&] { return below_.List(prefix, after, count_max); });
  }

 private:
  template <class Call>
  absl::Status Write(Call call) {
    if (dead_) return absl::UnavailableError("dead");
    if (left_-- > 0) return call();
    dead_ = true;
    if (after_) (void)call();
    return absl::UnavailableError("died");
  }
  template <class Call>
  auto Read(Call call) -> decltype(call()) {
    if (dead_) return absl::UnavailableError("dead");
    return call();
  }

  ObjectStore& below_;
  int left_;
  const bool after_;
  bool dead_ = false;
};

// Sequential, so that the n-th write is the same one in every run.
PackOptions Sequential() { return {.small_below = 4'096, .pack_bytes = 8'192, .calls_at_once = 1}; }

std::string Noise(size_t size, uint64_t seed) {
  Rng rng(seed);
  std::string bytes;
  while (bytes.size() < size) bytes += static_cast<char>(rng.Next());
  return bytes;
}

std::unique_ptr<PackStore> OpenStore(ObjectStore& objects) {
  auto store = PackStore::Open(objects, Sequential());
  REQUIRE(store.ok());
  return std::move(*store);
}

// A checkpoint: a file per chunk; those below `shared` are the same in every one.
std::vector<std::string> FilesOf(int checkpoint, int shared) {
  std::vector<std::string> files;
  for (int i = 0; i < 12; ++i)
    files.push_back(Noise(i < 10 ? 700 : 6'000, static_cast<uint64_t>(
        i < shared ? i : 1'000 * (checkpoint + 1) + i)));
  return files;
}

std::string ManifestTextOf(const std::vector<std::string>& files) {
  Manifest manifest;
  for (size_t i = 0; i < files.size(); ++i)
    manifest.entries.push_back({.path = "f" + std::to_string(i),
                                .size = static_cast<Bytes>(files[i].size()),
                                .chunks = {Digest(files[i])}});
  return *FormatManifest(manifest);
}

std::string ManifestDigestOf(const std::vector<std::string>& files) {
  return Digest(ManifestTextOf(files));
}

absl::StatusOr<std::string> Push(BlobStore& store, const std::vector<std::string>& files) {
  std::vector<std::string> digests;
  std::map<std::string, std::string_view> bytes;
  for (const std::string& file : files) {
    digests.push_back(Digest(file));
    bytes[digests.back()] = file;
  }
  RT_ASSIGN_OR_RETURN(std::vector<std::string> missing, store.FindMissing(digests));
  std::vector<NamedChunk> chunks;
  for (const std::string& digest : missing) chunks.push_back({digest, bytes[digest]});
  RT_RETURN_IF_ERROR(store.PutChunks(chunks));
  return store.PutManifest(ManifestTextOf(files));
}

void CheckWhole(BlobStore& store, const std::string& manifest,
                const std::vector<std::string>& files) {
  CHECK(store.GetManifest(manifest).ok());
  for (const std::string& file : files) {
    auto bytes = store.GetChunk(Digest(file));
    REQUIRE(bytes.ok());
    CHECK(*bytes == file);
  }
}

std::vector<ObjectInfo> Listed(ObjectStore& objects, const std::string& prefix) {
  auto listed = ListAll(objects, prefix);
  REQUIRE(listed.ok());
  return *listed;
}

size_t CountOf(ObjectStore& objects, const std::string& prefix) {
  return Listed(objects, prefix).size();
}

Swept SweepAfterGrace(PackStore& store, MemObjects& objects, const std::set<std::string>& live) {
  objects.Advance(kGrace + 1);
  auto swept = store.Sweep(live, kGrace);
  INFO(swept.status().ToString());
  REQUIRE(swept.ok());
  return *swept;
}

}  // namespace

TEST_CASE("pack store: small chunks that come together are one object") {
  MemObjects objects;
  auto store = OpenStore(objects);
  std::vector<std::string> files;
  for (int i = 0; i < 10; ++i) files.push_back(Noise(700, static_cast<uint64_t>(i)));
  auto manifest = Push(*store, files);
  REQUIRE(manifest.ok());
  CHECK(CountOf(objects, "packs/") == 1);
  CHECK(CountOf(objects, "chunks/") == 0);
  CheckWhole(*OpenStore(objects), *manifest, files);
}

TEST_CASE("pack store: a pack whose index is gone is read through") {
  MemObjects objects;
  std::vector<std::string> files = FilesOf(0, 0);
  auto manifest = Push(*OpenStore(objects), files);
  REQUIRE(manifest.ok());
  for (const ObjectInfo& pack : Listed(objects, "packs/")) {
    std::string bytes = *objects.Get(pack.key);
    bytes[bytes.size() - 40] ^= 1;
    REQUIRE(objects.Put(pack.key, bytes).ok());
  }
  CheckWhole(*OpenStore(objects), *manifest, files);
}

TEST_CASE("pack store: what is damaged or lost is said, is missing then, and a push heals it") {
  MemObjects objects;
  auto store = OpenStore(objects);
  std::vector<std::string> files = FilesOf(0, 0);
  auto manifest = Push(*store, files);
  const std::string packed = Digest(files[3]), loose = Digest(files[11]);
  for (const ObjectInfo& pack : Listed(objects, "packs/")) {
    std::string bytes = *objects.Get(pack.key);
    for (size_t at = 60; at < bytes.size(); at += 100) bytes[at] ^= 1;
    REQUIRE(objects.Put(pack.key, bytes).ok());
  }
  for (const ObjectInfo& chunk : Listed(objects, "chunks/"))
    REQUIRE(objects.Delete(chunk.key).ok());
  CHECK(absl::IsDataLoss(store->GetChunk(packed).status()));
  CHECK(absl::IsNotFound(store->GetChunk(loose).status()));
  CHECK(store->FindMissing({packed, loose})->size() == 2);
  for (const std::string& file : files) (void)store->GetChunk(Digest(file));
  REQUIRE(Push(*store, files).ok());
  CheckWhole(*store, *manifest, files);
  CheckWhole(*OpenStore(objects), *manifest, files);
}

TEST_CASE("sweep: what nothing names is condemned first and removed after its grace") {
  MemObjects objects;
  auto store = OpenStore(objects);
  auto live = Push(*store, FilesOf(0, 0)), dead = Push(*store, FilesOf(1, 0));
  const size_t before = CountOf(objects, "chunks/") + CountOf(objects, "packs/");
  auto first = store->Sweep({*live}, kGrace);
  REQUIRE(first.ok());
  CHECK(first->manifests == 0);
  CHECK(first->condemned == 4);  // The manifest, a pack, two large chunks.
  CHECK(CountOf(objects, "manifests/") == 2);
  auto early = store->Sweep({*live}, kGrace);
  CHECK(early->manifests == 0);
  CHECK(early->condemned == 0);
  Swept swept = SweepAfterGrace(*store, objects, {*live});
  CHECK(swept.manifests == 1);
  CHECK(swept.chunks == 12);
  CHECK(swept.bytes > 12'000);
  CHECK(CountOf(objects, "chunks/") + CountOf(objects, "packs/") == before - 3);
  CHECK(CountOf(objects, "condemned/") == 0);
  CHECK(absl::IsNotFound(store->GetManifest(*dead).status()));
  CHECK(absl::IsNotFound(store->GetChunk(Digest(FilesOf(1, 0)[0])).status()));
  CheckWhole(*store, *live, FilesOf(0, 0));
  CheckWhole(*OpenStore(objects), *live, FilesOf(0, 0));
}

TEST_CASE("sweep: whoever counts on a condemned chunk keeps it, also across a restart") {
  for (bool restart : {false, true}) {
    MemObjects objects;
    auto store = OpenStore(objects);
    REQUIRE(Push(*store, FilesOf(0, 0)).ok());
    REQUIRE(store->Sweep({}, kGrace).ok());
    objects.Advance(kGrace + 1);
    if (restart) store = OpenStore(objects);
    // A push finds all its chunks there and brings only a manifest; no sweep may come between.
    std::vector<std::string> digests;
    for (const std::string& file : FilesOf(0, 0)) digests.push_back(Digest(file));
    CHECK(store->FindMissing(digests)->empty());
    REQUIRE(store->Sweep({}, kGrace).ok());
    CHECK(store->FindMissing(digests)->empty());
    auto manifest = Push(*store, FilesOf(0, 0));
    REQUIRE(manifest.ok());
    CheckWhole(*store, *manifest, FilesOf(0, 0));
    SweepAfterGrace(*store, objects, {*manifest});
    SweepAfterGrace(*store, objects, {*manifest});
    CheckWhole(*OpenStore(objects), *manifest, FilesOf(0, 0));
  }
}

// The next two have a head that was replaced and does not know it yet beside the one that sweeps.
TEST_CASE("sweep: an old tombstone does not shorten the grace of what was put anew") {
  MemObjects objects;
  const std::vector<std::string> files = FilesOf(0, 0);
  REQUIRE(Push(*OpenStore(objects), files).ok());
  REQUIRE(OpenStore(objects)->Sweep({}, kGrace).ok());
  const std::vector<ObjectInfo> tombstones = Listed(objects, "condemned/");
  CHECK(tombstones.size() == 4);
  SweepAfterGrace(*OpenStore(objects), objects, {});
  auto replaced = OpenStore(objects);
  for (const ObjectInfo& tombstone : tombstones)  // As a crash before their removal leaves them.
    REQUIRE(objects.Put(tombstone.key, "").ok());
  auto sweeper = OpenStore(objects);
  objects.Advance(kGrace + 1);
  auto manifest = Push(*replaced, files);  // Its objects are younger than the tombstones.
  REQUIRE(manifest.ok());
  REQUIRE(sweeper->Sweep({}, kGrace).ok());
  CheckWhole(*OpenStore(objects), *manifest, files);
}

TEST_CASE("sweep: a manifest in its grace spares its chunks, whoever condemned them") {
  MemObjects objects;
  const std::vector<std::string> files = FilesOf(0, 0);
  auto replaced = OpenStore(objects);
  std::vector<NamedChunk> chunks;
  for (const std::string& file : files) chunks.push_back({Digest(file), file});
  REQUIRE(replaced->PutChunks(chunks).ok());
  auto sweeper = OpenStore(objects);
  REQUIRE(sweeper->Sweep({}, kGrace).ok());
  objects.Advance(kGrace + 1);
  auto manifest = Push(*replaced, files);
  REQUIRE(manifest.ok());
  REQUIRE(sweeper->Sweep({}, kGrace).ok());
  CheckWhole(*OpenStore(objects), *manifest, files);
}

TEST_CASE("sweep: a manifest that is being read, and what it names, gets its grace again") {
  MemObjects objects;
  auto store = OpenStore(objects);
  const std::vector<std::string> files = FilesOf(0, 0);
  auto manifest = Push(*store, files);
  REQUIRE(store->Sweep({}, kGrace).ok());
  objects.Advance(kGrace + 1);
  REQUIRE(store->GetManifest(*manifest).ok());
  REQUIRE(store->Sweep({}, kGrace).ok());
  for (const std::string& file : files) CHECK(*store->GetChunk(Digest(file)) == file);
  SweepAfterGrace(*store, objects, {});
  CHECK(absl::IsNotFound(store->GetManifest(*manifest).status()));
}

TEST_CASE("sweep: a pack below half live is rewritten") {
  MemObjects objects;
  auto store = OpenStore(objects);
  auto first = Push(*store, FilesOf(0, 0));
  std::vector<std::string> kept = FilesOf(0, 0);
  kept.resize(3);
  auto second = Push(*store, kept);  // Names 3 of the 10 in the first one's pack.
  SweepAfterGrace(*store, objects, {*second});
  SweepAfterGrace(*store, objects, {*second});
  SweepAfterGrace(*store, objects, {*second});
  auto packs = Listed(objects, "packs/");
  REQUIRE(packs.size() == 1);
  CHECK(packs[0].bytes < 3'000);
  CheckWhole(*store, *second, kept);
  CheckWhole(*OpenStore(objects), *second, kept);
  CHECK(SweepAfterGrace(*store, objects, {*second}).rewritten == 0);
}

TEST_CASE("sweep: packs of tiny chunks are not rewritten for ever") {
  MemObjects objects;
  auto store = OpenStore(objects);
  auto manifest = Push(*store, {"a", "b", "c"});
  for (int i = 0; i < 3; ++i)
    CHECK(SweepAfterGrace(*store, objects, {*manifest}).rewritten == 0);
  CHECK(CountOf(objects, "packs/") == 1);
}

TEST_CASE("sweep: with a live manifest that cannot be read nothing is removed") {
  MemObjects objects;
  auto store = OpenStore(objects);
  auto live = Push(*store, FilesOf(0, 0));
  REQUIRE(Push(*store, FilesOf(1, 0)).ok());
  REQUIRE(store->Sweep({*live}, kGrace).ok());
  objects.Advance(kGrace + 1);
  const size_t before = CountOf(objects, "");
  REQUIRE(objects.Put("manifests/" + KeyName(*live), "garbage").ok());
  CHECK(!store->Sweep({*live}, kGrace).ok());
  CHECK(CountOf(objects, "") == before);
}

// Pushes, retires, sweeps, over and over; the machine dies at every single write in turn. What was
// acknowledged before stays whole, and what came after works on.
TEST_CASE("a crash at any write leaves garbage at worst") {
  int runs = 0;
  for (bool after : {false, true}) {
    for (int deadly = 0;; ++deadly, ++runs) {
      MemObjects objects;
      Dying dying(objects, deadly, after);
      auto opened = PackStore::Open(dying, Sequential());
      REQUIRE(opened.ok());
      std::map<int, std::string> acknowledged;
      std::set<std::string> live;
      for (int checkpoint = 0; checkpoint < 5; ++checkpoint) {
        auto manifest = Push(**opened, FilesOf(checkpoint, 4));
        if (manifest.ok()) {
          acknowledged[checkpoint] = *manifest;
          live.insert(*manifest);
          if (acknowledged.contains(checkpoint - 1)) {  // Keep the newest only.
            live.erase(acknowledged[checkpoint - 1]);
            acknowledged.erase(checkpoint - 1);
          }
        }
        objects.Advance(kGrace + 1);
        (void)(*opened)->Sweep(live, kGrace);
      }
      auto store = OpenStore(objects);
      for (const auto& [checkpoint, manifest] : acknowledged)
        CheckWhole(*store, manifest, FilesOf(checkpoint, 4));
      auto next = Push(*store, FilesOf(9, 4));
      REQUIRE(next.ok());
      live.insert(*next);
      for (int i = 0; i < 4; ++i) SweepAfterGrace(*store, objects, live);
      CheckWhole(*OpenStore(objects), *next, FilesOf(9, 4));
      for (const auto& [checkpoint, manifest] : acknowledged)
        CheckWhole(*store, manifest, FilesOf(checkpoint, 4));
      // Nothing stays behind that nothing names.
      CHECK(CountOf(objects, "manifests/") == live.size());
      CHECK(CountOf(objects, "condemned/") == 0);
      if (!dying.died()) break;
    }
  }
  CHECK(runs > 60);
}

// The clock runs so fast that a grace is over with every sweep: a push may find that a chunk it
// counted on is gone, and is refused; what was accepted stays whole.
TEST_CASE("pushes and sweeps at the same time") {
  MemObjects objects;
  auto opened = PackStore::Open(objects, {.small_below = 4'096, .calls_at_once = 2});
  REQUIRE(opened.ok());
  PackStore& store = **opened;
  std::mutex mutex;
  std::set<std::string> live;
  std::map<std::string, int> accepted;  // By manifest: its checkpoint.
  std::map<std::string, int> retired;   // How often.
  std::atomic<int> pushing{4}, refused{0}, odd{0};
  auto push = [&](int thread) {
    for (int i = 0; i < 40; ++i) {
      const int checkpoint = (i * 7 + thread) % 10;  // Others push the same ones.
      const std::vector<std::string> files = FilesOf(checkpoint, 6);
      const std::string named = ManifestDigestOf(files);
      int before = 0;
      {
        std::lock_guard lock(mutex);
        live.insert(named);
        before = retired[named];
      }
      auto manifest = Push(store, files);
      std::lock_guard lock(mutex);
      if (manifest.ok()) {
        // Else another thread has retired it since: then it may go, also if a third pushes it now.
        if (retired[named] == before) accepted[*manifest] = checkpoint;
        if (i % 3 == 0) {  // Retired; perhaps another thread's, too.
          live.erase(*manifest);
          accepted.erase(*manifest);
          ++retired[named];
        }
      } else if (absl::IsFailedPrecondition(manifest.status())) {
        ++refused;
      } else {
        ++odd;
      }
    }
    --pushing;
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) threads.emplace_back(push, thread);
  size_t sweeps = 0, removed = 0;
  while (pushing > 0) {
    std::set<std::string> kept;
    {
      std::lock_guard lock(mutex);
      kept = live;
    }
    objects.Advance(kGrace + 1);
    auto swept = store.Sweep(kept, kGrace);
    if (!swept.ok()) ++odd;
    ++sweeps;
    removed += swept.ok() ? swept->chunks : 0;
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(odd == 0);
  CHECK(sweeps > 0);
  INFO(sweeps << " sweeps removed " << removed << " chunks; " << refused << " pushes were refused");
  auto again = OpenStore(objects);
  for (const auto& [manifest, checkpoint] : accepted)
    if (live.contains(manifest)) CheckWhole(*again, manifest, FilesOf(checkpoint, 6));
}
