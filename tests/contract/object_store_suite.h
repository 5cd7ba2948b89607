// The contract of common/cas/object_store.h, run by every implementation: each of these takes a
// fresh, empty store. `other_way_in` is another client of the same store.
#pragma once

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/cas/object_store.h"

namespace rt::contract {

inline std::vector<std::string> KeysOf(const std::vector<ObjectInfo>& listed) {
  std::vector<std::string> keys;
  for (const ObjectInfo& info : listed) keys.push_back(info.key);
  return keys;
}

inline void ObjectsReadBack(ObjectStore& store) {
  const std::string binary("\0\xff\n\r<&>", 7);
  for (const std::string& bytes : {std::string("hello"), std::string(), binary,
                                   std::string(300'000, 'z')}) {
    CHECK(absl::IsNotFound(store.Get("a/b").status()));
    CHECK(absl::IsNotFound(store.GetRange("a/b", 0, 1).status()));
    CHECK(!store.Look("a/b")->has_value());
    REQUIRE(store.PutIfAbsent("a/b", bytes).ok());
    CHECK(*store.Get("a/b") == bytes);
    auto info = store.Look("a/b");
    REQUIRE(info.ok());
    REQUIRE(info->has_value());
    CHECK((*info)->key == "a/b");
    CHECK((*info)->bytes == static_cast<Bytes>(bytes.size()));
    CHECK((*info)->changed_at > 0);
    REQUIRE(store.Delete("a/b").ok());
    REQUIRE(store.Delete("a/b").ok());
  }
}

inline void PutReplacesAndPutIfAbsentDoesNot(ObjectStore& store) {
  REQUIRE(store.PutIfAbsent("x", "one").ok());
  CHECK(absl::IsAlreadyExists(store.PutIfAbsent("x", "two")));
  CHECK(*store.Get("x") == "one");
  REQUIRE(store.Put("x", "three").ok());
  CHECK(*store.Get("x") == "three");
  REQUIRE(store.Put("new/x", "four").ok());
  CHECK(*store.Get("new/x") == "four");
  REQUIRE(store.Delete("x").ok());
  CHECK(store.PutIfAbsent("x", "five").ok());
  for (const char* key : {"x", "new/x"}) REQUIRE(store.Delete(key).ok());
}

// Of one that settles open writes by reading (RetryObjects) this holds only while no write is left
// open.
inline void EqualBytesAreTakenToo(ObjectStore& store) {
  REQUIRE(store.PutIfAbsent("equal", "one").ok());
  CHECK(absl::IsAlreadyExists(store.PutIfAbsent("equal", "one")));
  REQUIRE(store.Delete("equal").ok());
}

inline void RangesAreExact(ObjectStore& store) {
  REQUIRE(store.Put("range", "0123456789").ok());
  CHECK(*store.GetRange("range", 0, 10) == "0123456789");
  CHECK(*store.GetRange("range", 3, 4) == "3456");
  CHECK(*store.GetRange("range", 9, 1) == "9");
  CHECK(store.GetRange("range", 10, 0)->empty());
  CHECK(store.GetRange("range", 4, 0)->empty());
  for (auto [offset, size] : {std::pair<Bytes, Bytes>{0, 11}, {10, 1}, {11, 0}, {5, INT64_MAX}})
    CHECK(store.GetRange("range", offset, size).status().code() != absl::StatusCode::kOk);
  CHECK(absl::IsOutOfRange(store.GetRange("range", 8, 3).status()));
  CHECK(absl::IsOutOfRange(store.GetRange("range", 20, 3).status()));
  CHECK(absl::IsInvalidArgument(store.GetRange("range", -1, 3).status()));
  REQUIRE(store.Delete("range").ok());
}

inline void OddKeysAreRefused(ObjectStore& store) {
  for (const std::string& key :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"),
        std::string("../x"), std::string("a/./b"), std::string("a b"), std::string("a+"),
        std::string("\xc3\xa4"), std::string("a\0b", 3), std::string(201, 'a')}) {
    CHECK(absl::IsInvalidArgument(store.PutIfAbsent(key, "x")));
    CHECK(absl::IsInvalidArgument(store.Put(key, "x")));
    CHECK(absl::IsInvalidArgument(store.Get(key).status()));
    CHECK(absl::IsInvalidArgument(store.GetRange(key, 0, 0).status()));
    CHECK(absl::IsInvalidArgument(store.Look(key).status()));
    CHECK(absl::IsInvalidArgument(store.Delete(key)));
  }
}

inline void ListsAreSortedAndPaged(ObjectStore& store) {
  // '/' sorts behind '-' and '.', before digits and letters: folders must not change the order.
  const std::vector<std::string> keys = {"a",     "a-b",   "a.b",   "a/0",   "a/b/c", "a/b/d",
                                         "a/b0",  "a0",    "b/1",   "b/2",   "b/3",   "c"};
  for (size_t i = 0; i < keys.size(); ++i)
    REQUIRE(store.Put(keys[i], std::string(i, 'x')).ok());
  auto all = store.List("", "", 100);
  REQUIRE(all.ok());
  CHECK(KeysOf(*all) == keys);
  for (size_t i = 0; i < all->size(); ++i) CHECK((*all)[i].bytes == static_cast<Bytes>(i));
  for (size_t page : {size_t{1}, size_t{2}, size_t{5}, keys.size()}) {
    std::vector<std::string> seen;
    while (true) {
      auto listed = store.List("", seen.empty() ? "" : seen.back(), page);
      REQUIRE(listed.ok());
      for (const std::string& key : KeysOf(*listed)) seen.push_back(key);
      if (listed->size() < page) break;
    }
    CHECK(seen == keys);
  }
  using Keys = std::vector<std::string>;
  CHECK(KeysOf(*store.List("b/", "", 100)) == Keys{"b/1", "b/2", "b/3"});
  CHECK(KeysOf(*store.List("b/", "b/1", 1)) == Keys{"b/2"});
  CHECK(KeysOf(*store.List("a/b", "", 100)) == Keys{"a/b/c", "a/b/d", "a/b0"});
  CHECK(KeysOf(*store.List("a/b", "a/b/c", 100)) == Keys{"a/b/d", "a/b0"});
  CHECK(KeysOf(*store.List("", "a/z", 2)) == Keys{"a0", "b/1"});
  CHECK(KeysOf(*store.List("b/", "a", 100)) == Keys{"b/1", "b/2", "b/3"});
  CHECK(store.List("nothing", "", 100)->empty());
  CHECK(store.List("a", "b", 100)->empty());
  for (const std::string& key : keys) REQUIRE(store.Delete(key).ok());
  CHECK(store.List("", "", 100)->empty());
}

// The fence of the shipped journal: of several at once exactly one gets the key, and what stands
// there is what that one wrote.
inline void OneOfManyWins(const std::vector<ObjectStore*>& stores) {
  for (int round = 0; round < 10; ++round) {
    const std::string key = "race/" + std::to_string(round);
    std::atomic<int> winner{-1}, wins{0}, losses{0}, ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        ObjectStore& store = *stores[static_cast<size_t>(i) % stores.size()];
        ++ready;
        while (ready < 8) std::this_thread::yield();
        absl::Status status = store.PutIfAbsent(key, "writer " + std::to_string(i));
        if (status.ok()) {
          ++wins;
          winner = i;
        } else if (absl::IsAlreadyExists(status)) {
          ++losses;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wins == 1);
    CHECK(losses == 7);
    for (ObjectStore* store : stores)
      CHECK(*store->Get(key) == "writer " + std::to_string(winner.load()));
    REQUIRE(stores[0]->Delete(key).ok());
  }
}

// Replacing a name while others read it shows one whole object or the other.
inline void NoReaderSeesAPart(ObjectStore& store) {
  const std::string small(1'000, 'a'), large(400'000, 'b');
  REQUIRE(store.Put("whole", small).ok());
  std::atomic<bool> done{false};
  std::atomic<int> reads{0}, broken{0};
  std::thread reader([&] {
    while (!done || reads == 0) {
      auto bytes = store.Get("whole");
      if (!bytes.ok() || (*bytes != small && *bytes != large)) ++broken;
      ++reads;
    }
  });
  for (int i = 0; i < 30; ++i) CHECK(store.Put("whole", i % 2 == 0 ? large : small).ok());
  done = true;
  reader.join();
  CHECK(broken == 0);
  REQUIRE(store.Delete("whole").ok());
}

inline void CheckObjectStore(ObjectStore& store, ObjectStore& other_way_in) {
  ObjectsReadBack(store);
  PutReplacesAndPutIfAbsentDoesNot(store);
  EqualBytesAreTakenToo(store);
  RangesAreExact(store);
  OddKeysAreRefused(store);
  ListsAreSortedAndPaged(store);
  OneOfManyWins({&store, &other_way_in});
  NoReaderSeesAPart(store);
}

}  // namespace rt::contract
