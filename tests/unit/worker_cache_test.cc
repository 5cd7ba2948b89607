// The cache of unpacked trees, on a store in memory.
#include <catch2/catch.hpp>
#include <filesystem>

#include "common/cas/digest.h"
#include "common/cas/mem_store.h"
#include "common/cas/tree.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "worker/trees/tree_cache.h"

namespace rt::worker {
namespace {

Fence Attempt(uint32_t number) {
  return {{Owner::Of(TrialId{ExperimentId{1}, 0}), number, 1}, 0};
}

struct Trees {
  TempDir dir{"cache"};
  const std::string& path = dir.path();
  MemStore store;
  LocalTrees local{path + "/checkpoints", {}};
  TreeFetcher fetcher{store, local};
  // The manifest of a tree of `bytes` bytes.
  std::string Make(const std::string& name, size_t bytes) {
    const std::string source = path + "/source-" + name;
    REQUIRE(EnsureDirectory(source).ok());
    REQUIRE(WriteFileAtomic(source + "/" + name, std::string(bytes, 'x')).ok());
    auto tree = StoreTree(store, source, {});
    REQUIRE(tree.ok());
    return tree->manifest;
  }
  std::string directory() const { return path + "/cache"; }
  size_t kept() const {
    auto all = std::filesystem::directory_iterator(directory());
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }
};

TEST_CASE("beyond its bounds the cache gives up the trees that were used longest ago") {
  Trees trees;
  TreeCache cache(trees.directory(), trees.fetcher, {.trees = 2});
  std::vector<std::string> paths;
  for (uint32_t i = 1; i <= 3; ++i) {
    auto path = cache.Get(trees.Make("t" + std::to_string(i), 10), Attempt(i));
    REQUIRE(path.ok());
    paths.push_back(*path);
    cache.Release(Attempt(i));
    if (i == 2) REQUIRE(cache.Get(trees.Make("t1", 10), Attempt(1)).ok());  // Used again.
    cache.Release(Attempt(1));
  }
  CHECK(Exists(paths[0] + "/t1"));
  CHECK_FALSE(Exists(paths[1]));
  CHECK(Exists(paths[2] + "/t3"));
  CHECK(trees.kept() == 2);
}

TEST_CASE("a tree that an attempt uses is never given up, also one of an earlier daemon's") {
  Trees trees;
  const std::string old = trees.Make("old", 10);
  std::string path;
  {
    TreeCache cache(trees.directory(), trees.fetcher);
    path = *cache.Get(old, Attempt(1));
  }
  TreeCache cache(trees.directory(), trees.fetcher, {.trees = 1});
  cache.Keep(old, Attempt(1));
  REQUIRE(cache.Get(trees.Make("a", 10), Attempt(2)).ok());
  REQUIRE(cache.Get(trees.Make("b", 10), Attempt(2)).ok());
  CHECK(Exists(path));
  CHECK(trees.kept() == 3);  // All in use.
  cache.Release(Attempt(1));
  cache.Release(Attempt(2));
  REQUIRE(cache.Get(trees.Make("c", 10), Attempt(3)).ok());
  CHECK_FALSE(Exists(path));
  CHECK(trees.kept() == 1);
}

TEST_CASE("the cache is bounded in bytes as well") {
  Trees trees;
  TreeCache cache(trees.directory(), trees.fetcher, {.bytes = 100'000});
  for (uint32_t i = 1; i <= 5; ++i) {
    REQUIRE(cache.Get(trees.Make("t" + std::to_string(i), 40'000), Attempt(i)).ok());
    cache.Release(Attempt(i));
  }
  CHECK(trees.kept() == 2);
}

TEST_CASE("a tree too large for the disk, or as a bundle, is refused before a byte is there") {
  Trees trees;
  const std::string chunk(limits::kChunkBytes, 'x');
  REQUIRE(trees.store.PutChunk(Digest(chunk), chunk).ok());
  auto repeated = [&](size_t times) {
    ManifestEntry entry{.path = "a",
                        .size = static_cast<Bytes>(times * limits::kChunkBytes),
                        .chunks = std::vector<std::string>(times, Digest(chunk))};
    return *trees.store.PutManifest(*FormatManifest({.entries = {entry}}));
  };
  TreeCache cache(trees.directory(), trees.fetcher);
  const auto bundle = cache.Get(repeated(800), Attempt(1), TreeKind::kBundle);
  CHECK(absl::IsInvalidArgument(bundle.status()));
  std::error_code error;
  const auto whole = std::filesystem::space(trees.path, error).capacity;
  const size_t times = whole / limits::kChunkBytes + 1;
  if (times <= 200'000) {  // A manifest names no more; most disks that tests run on are smaller.
    const auto input = cache.Get(repeated(times), Attempt(1));
    CHECK(input.status().code() == absl::StatusCode::kFailedPrecondition);
  }
  CHECK(trees.kept() == 0);
}

}  // namespace
}  // namespace rt::worker
