#include <catch2/catch.hpp>

#include <atomic>
#include <barrier>

#include "common/cas/digest.h"
#include "common/cas/mem_store.h"
#include "common/cas/read_ahead.h"

using namespace rt;

namespace {

// Counts what is asked for and, when told to, waits until so many callers are inside at once.
class Slow : public MemStore {
 public:
  std::atomic<int> asked = 0;
  std::barrier<>* together = nullptr;
  absl::StatusOr<std::string> GetChunk(const std::string& digest) override {
    ++asked;
    if (together != nullptr) together->arrive_and_wait();
    return MemStore::GetChunk(digest);
  }
};

std::vector<WantedChunk> Fill(MemStore& store, int count) {
  std::vector<WantedChunk> wanted;
  for (int i = 0; i < count; ++i) {
    const std::string bytes = "chunk " + std::to_string(1'000 + i);
    REQUIRE(store.PutChunk(Digest(bytes), bytes).ok());
    wanted.push_back({Digest(bytes), static_cast<Bytes>(bytes.size())});
  }
  return wanted;
}

}  // namespace

TEST_CASE("read ahead: chunks come in the order wanted, from several threads at once") {
  Slow store;
  auto wanted = Fill(store, 100);
  std::barrier<> together(4);
  store.together = &together;
  ReadAhead ahead(store, wanted, 4, 1'000);
  for (int i = 0; i < 100; ++i) CHECK(*ahead.Next() == "chunk " + std::to_string(1'000 + i));
  CHECK(absl::IsOutOfRange(ahead.Next().status()));
}

TEST_CASE("read ahead: no more than its bytes lie ready, and one chunk at least") {
  Slow store;
  auto wanted = Fill(store, 50);  // Of 10 bytes each.
  {
    ReadAhead ahead(store, wanted, 8, 35);
    CHECK(ahead.Next().ok());
  }  // Ended early: nothing hangs. One was taken, three more fit.
  CHECK(store.asked <= 4);
  ReadAhead tight(store, wanted, 8, 1);
  for (int i = 0; i < 50; ++i) CHECK(tight.Next().ok());
}

TEST_CASE("read ahead: an absent chunk and one of another size are errors in their place") {
  Slow store;
  auto wanted = Fill(store, 3);
  wanted[1].digest = Digest("nowhere");
  wanted[2].size = 7;
  ReadAhead ahead(store, wanted, 2, 1'000);
  CHECK(ahead.Next().ok());
  CHECK(absl::IsNotFound(ahead.Next().status()));
  CHECK(absl::IsDataLoss(ahead.Next().status()));
}
