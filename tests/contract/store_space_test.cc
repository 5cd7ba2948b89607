// What every swept store promises about its room: it counts what lies there to the byte, never
// holds more than its quota, and loses nothing to it.
#include "common/cas/store_space.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/cas/dir_store.h"
#include "common/cas/mem_objects.h"
#include "common/cas/pack_store.h"
#include "common/run/files.h"
#include "tests/contract/blob_store_suite.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {

// A place that outlives the store in it.
class Place {
 public:
  virtual ~Place() = default;
  virtual std::unique_ptr<SweptStore> Open(Bytes quota) = 0;
  virtual Bytes Stored() = 0;  // By looking.
  // As often as it takes until what nothing names is gone.
  virtual void Sweep(SweptStore& store, const std::set<std::string>& live) = 0;
  virtual void Damage(const std::string& digest) = 0;
};

class DirPlace final : public Place {
 public:
  std::unique_ptr<SweptStore> Open(Bytes quota) override {
    auto store = DirStore::Open(root_.path(), quota);
    REQUIRE(store.ok());
    return std::move(*store);
  }
  Bytes Stored() override {
    uintmax_t bytes = 0;
    for (const char* folder : {"/chunks", "/manifests"})
      for (const auto& file : std::filesystem::recursive_directory_iterator(root_.path() + folder))
        if (file.is_regular_file()) bytes += file.file_size();
    return static_cast<Bytes>(bytes);
  }
  void Sweep(SweptStore& store, const std::set<std::string>& live) override {
    REQUIRE(store.Sweep(live, -1'000).ok());
  }
  void Damage(const std::string& digest) override {
    const std::string path =
        root_.path() + "/chunks/" + std::string(DigestHex(digest).substr(0, 2)) + "/" + digest;
    REQUIRE(WriteFileAtomic(path, std::string(std::filesystem::file_size(path), 'x')).ok());
  }

 private:
  const TempDir root_{"room"};
};

class PackPlace final : public Place {
 public:
  std::unique_ptr<SweptStore> Open(Bytes quota) override {
    PackOptions options{.small_below = 4'096, .pack_bytes = 64'000};
    options.quota = quota;
    auto store = PackStore::Open(objects_, options);
    REQUIRE(store.ok());
    return std::move(*store);
  }
  Bytes Stored() override {
    Bytes bytes = 0;
    for (const char* prefix : {"chunks/", "packs/", "manifests/"}) {
      const std::vector<ObjectInfo> listed = *ListAll(objects_, prefix);
      for (const ObjectInfo& object : listed) bytes += object.bytes;
    }
    return bytes;
  }
  void Sweep(SweptStore& store, const std::set<std::string>& live) override {
    for (int i = 0; i < 3; ++i) {
      REQUIRE(store.Sweep(live, 1'000).ok());
      objects_.Advance(1'001);
    }
  }
  void Damage(const std::string& digest) override {
    const std::string key =
        "chunks/" + std::string(DigestHex(digest).substr(0, 2)) + "/" + KeyName(digest);
    REQUIRE(objects_.Put(key, std::string(objects_.Get(key)->size(), 'x')).ok());
  }

 private:
  MemObjects objects_;
};

std::vector<std::unique_ptr<Place>> Places() {
  std::vector<std::unique_ptr<Place>> places;
  places.push_back(std::make_unique<DirPlace>());
  places.push_back(std::make_unique<PackPlace>());
  return places;
}

std::string Noise(size_t size, uint64_t seed) {
  Rng rng(seed);
  std::string bytes;
  while (bytes.size() < size) bytes += static_cast<char>(rng.Next());
  return bytes;
}

absl::Status Put(BlobStore& store, const std::vector<std::string>& files) {
  std::vector<NamedChunk> chunks;
  std::vector<std::string> digests;
  for (const std::string& file : files) digests.push_back(Digest(file));
  for (size_t i = 0; i < files.size(); ++i) chunks.push_back({digests[i], files[i]});
  return store.PutChunks(chunks);
}

absl::StatusOr<std::string> Push(BlobStore& store, const std::string& bytes) {
  RT_RETURN_IF_ERROR(store.PutChunk(Digest(bytes), bytes));
  return store.PutManifest(contract::ManifestOf(bytes));
}

void CheckCount(Place& place, const SweptStore& store) {
  CHECK(store.use().used_bytes == place.Stored());
}

// Answers a write that it has carried out with Unavailable, once.
class Lossy final : public MemObjects {
 public:
  bool lose_next = false;
  absl::Status Put(const std::string& key, std::string_view bytes) override {
    absl::Status status = MemObjects::Put(key, bytes);
    return std::exchange(lose_next, false) ? absl::UnavailableError("lost") : status;
  }
};

}  // namespace

TEST_CASE("space: what lies there is counted through puts, repeats, sweeps, damage and restarts") {
  for (auto& place : Places()) {
    auto store = place->Open(0);
    CHECK(store->use().used_bytes == 0);
    const std::string live = Noise(9'000, 1), dead = Noise(7'000, 2);
    auto kept = Push(*store, live);
    REQUIRE(kept.ok());
    REQUIRE(Push(*store, dead).ok());
    CheckCount(*place, *store);
    const Bytes before = store->use().used_bytes;
    CHECK(before >= 16'000);
    REQUIRE(Push(*store, live).ok());
    CHECK(store->use().used_bytes == before);
    std::vector<std::string> many = {Noise(20'000, 3), Noise(5'000, 4)};
    for (uint64_t i = 0; i < 150; ++i) many.push_back(Noise(100 + i, 100 + i));
    REQUIRE(Put(*store, many).ok());
    REQUIRE(Put(*store, many).ok());
    CheckCount(*place, *store);
    CHECK(store->PutChunk(Digest("right"), "wrong").code() == absl::StatusCode::kDataLoss);
    CheckCount(*place, *store);
    CHECK(place->Open(0)->use().used_bytes == store->use().used_bytes);
    place->Damage(Digest(live));
    CHECK(!store->GetChunk(Digest(live)).ok());
    CHECK(place->Open(0)->use().used_bytes == place->Stored());
    REQUIRE(store->PutChunk(Digest(live), live).ok());
    CheckCount(*place, *store);
    place->Sweep(*store, {*kept});
    CheckCount(*place, *store);
    CHECK(store->use().used_bytes < before);
    place->Sweep(*store, {});
    CHECK(place->Stored() == 0);
    CheckCount(*place, *store);
  }
}

TEST_CASE("space: above its quota a store refuses, says what to do, and what is there stays") {
  for (auto& place : Places()) {
    auto store = place->Open(20'000);
    const std::string first = Noise(12'000, 1), second = Noise(12'000, 2);
    auto kept = Push(*store, first);
    REQUIRE(kept.ok());
    CHECK(!store->use().refuses);
    absl::Status refused = Push(*store, second).status();
    REQUIRE(absl::IsResourceExhausted(refused));
    CHECK(MessageOf(refused).find("of its quota of 19.5 KiB are used, and 11.") !=
          std::string::npos);
    CHECK(HintOf(refused).find("checkpoint_store/quota") != std::string::npos);
    CHECK(absl::IsResourceExhausted(Put(*store, {second, Noise(4'000, 3)})));
    const StoreUse use = store->use();
    CHECK(use.refuses);
    CHECK(use.quota_bytes == 20'000);
    CHECK(use.reason.find("quota") != std::string::npos);
    CHECK(store->IsShortOfSpace());
    CheckCount(*place, *store);
    CHECK(store->use().used_bytes <= 20'000);
    // What is there costs nothing, whoever pushes it.
    CHECK(*Push(*store, first) == *kept);
    CHECK(*store->GetChunk(Digest(first)) == first);
    CHECK(store->GetManifest(*kept).ok());
    store->LookAgain();
    CHECK(store->use().refuses);
  }
}

TEST_CASE("space: after a sweep the waiting pushes are taken, and nothing waits any more") {
  for (auto& place : Places()) {
    auto store = place->Open(20'000);
    REQUIRE(Push(*store, Noise(12'000, 1)).ok());
    const std::string waits = Noise(12'000, 2);
    REQUIRE(absl::IsResourceExhausted(Push(*store, waits).status()));
    place->Sweep(*store, {});
    CHECK(!store->IsShortOfSpace());
    CHECK(store->use().refuses);  // Nobody has looked.
    store->LookAgain();
    CHECK(!store->use().refuses);
    CHECK(store->use().reason.empty());
    CHECK(Push(*store, waits).ok());
    CheckCount(*place, *store);
  }
}

TEST_CASE("space: a quota below what is in use refuses pushes and deletes nothing") {
  for (auto& place : Places()) {
    const std::string first = Noise(12'000, 1), second = Noise(12'000, 2);
    auto before = place->Open(0);
    auto one = Push(*before, first), two = Push(*before, second);
    before.reset();
    auto store = place->Open(5'000);
    CheckCount(*place, *store);
    CHECK(store->use().used_bytes > 24'000);
    CHECK(absl::IsResourceExhausted(store->PutChunk(Digest("more"), "more")));
    place->Sweep(*store, {*one, *two});
    CHECK(*store->GetChunk(Digest(first)) == first);
    CHECK(*store->GetChunk(Digest(second)) == second);
    CHECK(place->Open(40'000)->PutChunk(Digest("more"), "more").ok());
  }
}

TEST_CASE("space: pushes that come at once do not pass the quota together") {
  for (auto& place : Places()) {
    auto store = place->Open(100'000);
    std::atomic<int> taken = 0;
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        for (uint64_t j = 0; j < 6; ++j)
          if (Push(*store, Noise(7'000, 10 * i + j)).ok()) ++taken;
      });
    for (std::thread& thread : threads) thread.join();
    CheckCount(*place, *store);
    CHECK(store->use().used_bytes <= 100'000);
    // 14 would fit one after another; of the 8 under way when the quota is reached, each may have
    // written its chunk and be refused its manifest.
    CHECK(taken >= 5);
  }
}

TEST_CASE("space: a store full of half dead packs gets space again") {
  PackPlace place;
  auto store = place.Open(70'000);
  std::vector<std::string> files;
  for (uint64_t i = 0; i < 30; ++i) files.push_back(Noise(2'000, i));
  REQUIRE(Put(*store, files).ok());
  auto kept = store->PutManifest(contract::ManifestOf(files[3]));
  REQUIRE(kept.ok());
  const std::string waits = Noise(30'000, 99);
  REQUIRE(absl::IsResourceExhausted(Push(*store, waits).status()));
  place.Sweep(*store, {*kept});
  CheckCount(place, *store);
  CHECK(Push(*store, waits).ok());
  CHECK(*store->GetChunk(Digest(files[3])) == files[3]);
}

TEST_CASE("space: a write whose answer was lost is counted as done, and a sweep sees the truth") {
  Lossy objects;
  auto store = *PackStore::Open(objects);
  objects.lose_next = true;
  CHECK(absl::IsUnavailable(store->PutChunk(Digest("a"), "a")));
  const Bytes stored = ListAll(objects, "chunks/")->front().bytes;
  CHECK(store->use().used_bytes == stored);
  REQUIRE(store->Sweep({}, 1'000).ok());
  CHECK(store->use().used_bytes == stored);
  REQUIRE(objects.Delete(ListAll(objects, "chunks/")->front().key).ok());  // By somebody else.
  REQUIRE(store->Sweep({}, 1'000).ok());
  CHECK(store->use().used_bytes == 0);
}

TEST_CASE("space: a disk that would be filled refuses, with writes that are under way counted") {
  StoreSpace space(0, "/tmp");
  auto some = space.Take({.growth = 1, .written = 1});
  REQUIRE(some.ok());
  auto much = space.Take({.growth = 1, .written = Bytes{1} << 60});
  REQUIRE(absl::IsResourceExhausted(much.status()));
  CHECK(MessageOf(much.status()).find("are kept free") != std::string::npos);
  CHECK(space.use().refuses);
  space.LookAgain();
  CHECK(space.use().refuses);
  auto again = space.Take({.growth = 1, .written = 1});  // What was refused holds nothing.
  CHECK(again.ok());
  some->Keep(1, 0);
  CHECK(space.use().used_bytes == 1);
}
