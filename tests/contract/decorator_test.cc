// Object stores around object stores: the contract through each, and what each adds.
#include "common/cas/cache_objects.h"
#include "common/cas/limit_objects.h"
#include "common/cas/mem_objects.h"
#include "common/cas/retry_objects.h"
#include "tests/contract/object_store_suite.h"

using namespace rt;

namespace {

bool Always(const std::string&) { return true; }

// Counts reads; the calls under way meet at a gate when it is closed.
class Counting : public MemObjects {
 public:
  std::atomic<int> reads{0}, under_way{0}, most{0};
  std::atomic<bool> closed{false};

  absl::StatusOr<std::string> Get(const std::string& key) override {
    ++reads;
    const int now = ++under_way;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    while (closed) std::this_thread::yield();
    auto bytes = MemObjects::Get(key);
    --under_way;
    return bytes;
  }
  absl::StatusOr<std::string> GetRange(const std::string& key, Bytes offset, Bytes size) override {
    ++reads;
    return MemObjects::GetRange(key, offset, size);
  }
};

}  // namespace

TEST_CASE("object store contract: retry") {
  MemObjects below;
  RetryObjects store(below), other(below);
  contract::CheckObjectStore(store, other);
}

TEST_CASE("object store contract: limit") {
  MemObjects below;
  LimitObjects store(below, {.bytes_per_second = Bytes{1} << 40, .calls_at_once = 2});
  contract::CheckObjectStore(store, below);
}

TEST_CASE("object store contract: cache") {
  MemObjects below;
  CacheObjects store(below, 1'000'000, Always);
  contract::CheckObjectStore(store, store);
  CacheObjects of_nothing(below, 1'000'000, [](const std::string&) { return false; });
  contract::CheckObjectStore(of_nothing, below);
  CHECK(of_nothing.bytes_kept() == 0);
}

TEST_CASE("cache: what was read is not asked for again, within its bound, oldest out first") {
  Counting below;
  CacheObjects store(below, 250, Always);
  for (const char* key : {"a", "b", "c"}) REQUIRE(store.Put(key, std::string(100, *key)).ok());
  CHECK(*store.Get("a") == std::string(100, 'a'));
  CHECK(*store.Get("a") == std::string(100, 'a'));
  CHECK(*store.GetRange("b", 3, 50) == std::string(50, 'b'));
  CHECK(*store.GetRange("b", 3, 50) == std::string(50, 'b'));
  CHECK(below.reads == 2);
  CHECK(store.bytes_kept() == 150);
  REQUIRE(store.Get("a").ok());  // Used more recently than the part of b.
  REQUIRE(store.Get("c").ok());
  CHECK(store.bytes_kept() == 250);
  REQUIRE(store.GetRange("c", 0, 1).ok());
  CHECK(store.bytes_kept() == 201);  // The part of b went.
  CHECK(below.reads == 4);
  REQUIRE(store.Get("a").ok());
  CHECK(below.reads == 4);
  CHECK(!store.Get("absent").ok());
  CHECK(!store.Get("absent").ok());
  CHECK(below.reads == 6);  // That something is absent is not kept.
}

TEST_CASE("cache: a read that a write overtook is not kept") {
  Counting below;
  CacheObjects store(below, 1'000, Always);
  REQUIRE(store.Put("k", "old").ok());
  below.closed = true;
  std::thread reader([&] { (void)store.Get("k"); });
  while (below.under_way == 0) std::this_thread::yield();
  REQUIRE(store.Put("k", "new").ok());
  below.closed = false;
  reader.join();
  CHECK(*store.Get("k") == "new");
}

TEST_CASE("limit: no more calls at once than allowed") {
  Counting below;
  REQUIRE(below.Put("k", "v").ok());
  LimitObjects store(below, {.calls_at_once = 3});
  below.closed = true;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { (void)store.Get("k"); });
  while (below.under_way < 3) std::this_thread::yield();
  below.closed = false;
  for (std::thread& thread : threads) thread.join();
  CHECK(below.reads == 8);
  CHECK(below.most == 3);
}

TEST_CASE("limit: bytes have their time, a pause is not saved up, and refusals cost nothing") {
  MemObjects below;
  Millis now = 5'000;
  std::vector<Millis> waits;
  LimitObjects store(below, {.bytes_per_second = 1'000}, [&] { return now; },
                     [&](Millis wait) {
                       waits.push_back(wait);
                       now += wait;
                     });
  REQUIRE(store.Put("a", std::string(500, 'x')).ok());  // At once; the next one waits for it.
  REQUIRE(store.Put("b", std::string(2'000, 'x')).ok());
  CHECK(waits == std::vector<Millis>{500});
  REQUIRE(store.Get("a").ok());  // Waits for b; its own bytes are charged afterwards.
  CHECK(waits == std::vector<Millis>{500, 2'000});
  CHECK(!store.Get("absent").ok());
  CHECK(waits == std::vector<Millis>{500, 2'000, 500});
  now += 60'000;
  REQUIRE(store.Put("c", std::string(100, 'x')).ok());
  REQUIRE(store.Put("c", "").ok());
  CHECK(waits == std::vector<Millis>{500, 2'000, 500, 100});
}
