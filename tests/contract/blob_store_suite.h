// The contract of common/cas/blob_store.h, run by every implementation: each of these takes a
// fresh, empty store.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "common/cas/blob_store.h"
#include "common/cas/digest.h"
#include "common/cas/manifest.h"

namespace rt::contract {

inline std::string ManifestOf(const std::string& bytes) {
  ManifestEntry entry{.path = "a/file", .size = static_cast<Bytes>(bytes.size())};
  if (!bytes.empty()) entry.chunks = {Digest(bytes)};
  return *FormatManifest({.entries = {entry}});
}

inline void ChunksReadBack(BlobStore& store) {
  for (const std::string& bytes : {std::string("hello"), std::string(3'500'000, 'z'),
                                   std::string("\0\xff\n", 3), std::string()}) {
    std::string digest = Digest(bytes);
    CHECK(store.GetChunk(digest).status().code() == absl::StatusCode::kNotFound);
    CHECK(*store.FindMissing({digest}) == std::vector<std::string>{digest});
    REQUIRE(store.PutChunk(digest, bytes).ok());
    REQUIRE(store.PutChunk(digest, bytes).ok());
    CHECK(store.FindMissing({digest})->empty());
    CHECK(*store.GetChunk(digest) == bytes);
  }
  CHECK(store.FindMissing({})->empty());
}

inline void WrongBytesAreRefused(BlobStore& store) {
  std::string digest = Digest("right");
  CHECK(store.PutChunk(digest, "wrong").code() == absl::StatusCode::kDataLoss);
  CHECK(store.FindMissing({digest})->size() == 1);
  for (const char* odd : {"", "b3:12", "../../etc/passwd", "b3:../../x"}) {
    CHECK(store.PutChunk(odd, "x").code() == absl::StatusCode::kInvalidArgument);
    CHECK(!store.GetChunk(odd).ok());
    CHECK(!store.GetManifest(odd).ok());
    CHECK(!store.FindMissing({odd}).ok());
  }
}

inline void ManifestsComeAfterTheirChunks(BlobStore& store) {
  std::string text = ManifestOf("content");
  CHECK(store.PutManifest(text).status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(store.GetManifest(Digest(text)).status().code() == absl::StatusCode::kNotFound);
  REQUIRE(store.PutChunk(Digest("content"), "content").ok());
  auto digest = store.PutManifest(text);
  REQUIRE(digest.ok());
  CHECK(*digest == Digest(text));
  CHECK(*store.PutManifest(text) == *digest);
  CHECK(*store.GetManifest(*digest) == text);
  CHECK(!store.PutManifest("nonsense").ok());
  CHECK(!store.PutManifest(text + " ").ok());
}

inline void ManyChunksComeAtOnce(BlobStore& store) {
  std::vector<std::string> bytes, digests;
  for (int i = 0; i < 300; ++i) bytes.push_back("small " + std::to_string(i));
  bytes.push_back(std::string(2'500'000, 'L'));
  bytes.push_back("");
  bytes.push_back(std::string(900'000, 'S'));
  std::vector<NamedChunk> chunks;
  for (const std::string& one : bytes) {
    digests.push_back(Digest(one));
    chunks.push_back({digests.back(), one});
  }
  REQUIRE(store.PutChunks({}).ok());
  REQUIRE(store.PutChunks(chunks).ok());
  CHECK(store.FindMissing(digests)->empty());
  for (size_t i = 0; i < bytes.size(); ++i) CHECK(*store.GetChunk(digests[i]) == bytes[i]);
  REQUIRE(store.PutChunks(chunks).ok());
  CHECK(*store.GetChunk(digests[7]) == bytes[7]);
  CHECK(absl::IsDataLoss(store.PutChunks({{Digest("one"), "one"}, {Digest("two"), "three"}})));
  CHECK(!store.GetChunk(Digest("two")).ok());
  CHECK(absl::IsInvalidArgument(store.PutChunks({{"b3:../x", "one"}, {Digest("two"), "two"}})));
}

// More at once than goes through a page cache, of sizes that no disk likes.
inline void LargeChunksComeAtOnce(BlobStore& store) {
  std::vector<std::string> bytes;
  for (size_t size : {4u << 20, (4u << 20) - 1, (1u << 20) + 4'095, 1u << 20, (1u << 20) - 1,
                      (3u << 20) + 17, 5u})
    bytes.emplace_back(size, static_cast<char>('A' + bytes.size()));
  std::vector<NamedChunk> chunks;
  std::vector<std::string> digests;
  for (const std::string& one : bytes) digests.push_back(Digest(one));
  for (size_t i = 0; i < bytes.size(); ++i) chunks.push_back({digests[i], bytes[i]});
  REQUIRE(store.PutChunks(chunks).ok());
  for (size_t i = 0; i < bytes.size(); ++i) CHECK(*store.GetChunk(digests[i]) == bytes[i]);
}

inline void CheckAll(BlobStore& store) {
  WrongBytesAreRefused(store);
  ChunksReadBack(store);
  ManifestsComeAfterTheirChunks(store);
  ManyChunksComeAtOnce(store);
  LargeChunksComeAtOnce(store);
}

}  // namespace rt::contract
