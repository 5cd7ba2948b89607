// What lies on a node: served while it arrives, kept within bounds, and never believed unread.
#include <catch2/catch.hpp>
#include <filesystem>
#include <future>

#include "common/cas/digest.h"
#include "common/cas/mem_store.h"
#include "common/cas/tree.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "worker/trees/tree_fetcher.h"
#include "worker/trees/tree_files.h"

namespace rt::worker {
namespace {

namespace fs = std::filesystem;

struct NodeTrees {
  TempDir dir{"trees"};
  const std::string& path = dir.path();
  std::string kept() const { return path + "/kept"; }
  // A tree of one file with so many bytes, drawn from `letter`.
  std::string Write(const std::string& name, char letter, size_t bytes) const {
    const std::string tree = path + "/" + name;
    REQUIRE(EnsureDirectory(tree).ok());
    REQUIRE(WriteFileAtomic(tree + "/file", std::string(bytes, letter)).ok());
    return tree;
  }
};

struct Counting : public MemStore {
  std::atomic<int> chunks = 0;
  absl::StatusOr<std::string> GetChunk(const std::string& digest) override {
    ++chunks;
    return MemStore::GetChunk(digest);
  }
};

StoredTree Store(BlobStore& store, const std::string& tree) {
  auto stored = StoreTree(store, tree, {});
  REQUIRE(stored.ok());
  return *stored;
}

// Pushed from here: it lies in the store, and is kept.
StoredTree Push(BlobStore& store, LocalTrees& trees, const std::string& tree) {
  const timespec since = FileClock();
  StoredTree stored = Store(store, tree);
  trees.Keep(stored.manifest, stored.text, tree, since);
  return stored;
}

}  // namespace

TEST_CASE("what was pushed from here is restored here without the store, by the next daemon too") {
  NodeTrees node;
  Counting store;
  std::string manifest;
  {
    LocalTrees trees(node.kept(), {});
    manifest = Push(store, trees, node.Write("a", 'a', 100'000)).manifest;
    CHECK_FALSE(Exists(node.path + "/a"));  // Moved, not copied.
  }
  LocalTrees trees(node.kept(), {});
  MemStore nothing;
  TreeFetcher fetcher(nothing, trees);
  REQUIRE(fetcher.Fetch(manifest, node.path + "/back", node.path + "/back").ok());
  CHECK(*ReadFile(node.path + "/back/file") == std::string(100'000, 'a'));
  // What the program does with its files is nobody else's.
  REQUIRE(WriteFileAtomic(node.path + "/back/file", "changed").ok());
  REQUIRE(fetcher.Fetch(manifest, node.path + "/again", node.path + "/again").ok());
  CHECK(*ReadFile(node.path + "/again/file") == std::string(100'000, 'a'));
}

TEST_CASE("a kept tree with a wrong byte is given up, and the store is asked") {
  NodeTrees node;
  Counting store;
  LocalTrees trees(node.kept(), {});
  const StoredTree stored = Push(store, trees, node.Write("a", 'a', 100'000));
  for (const auto& one : fs::recursive_directory_iterator(node.kept()))
    if (one.path().filename() == "file")
      REQUIRE(WriteFileAtomic(one.path().string(), std::string(100'000, 'b')).ok());
  TreeFetcher fetcher(store, trees);
  REQUIRE(fetcher.Fetch(stored.manifest, node.path + "/back", node.path + "/back").ok());
  CHECK(*ReadFile(node.path + "/back/file") == std::string(100'000, 'a'));
  CHECK(store.chunks == 1);
  CHECK(fs::is_empty(node.kept()));
}

TEST_CASE("a tree that changed while it was pushed is not kept") {
  NodeTrees node;
  MemStore store;
  LocalTrees trees(node.kept(), {});
  const StoredTree stored = Store(store, node.Write("a", 'a', 1'000));
  REQUIRE(WriteFileAtomic(node.path + "/a/file", std::string(1'000, 'b')).ok());
  const timespec before{1, 0};
  trees.Keep(stored.manifest, stored.text, node.path + "/a", before);
  CHECK(Exists(node.path + "/a"));
  CHECK(absl::IsNotFound(trees.GetManifest(stored.manifest).status()));
}

TEST_CASE("only so many bytes are kept: those used longest ago go first") {
  NodeTrees node;
  MemStore store;
  LocalTrees trees(node.kept(), {.bytes = 250});
  const StoredTree a = Push(store, trees, node.Write("a", 'a', 100));
  const StoredTree b = Push(store, trees, node.Write("b", 'b', 100));
  const std::string chunk = Digest(std::string(100, 'a'));
  REQUIRE(trees.GetChunk({.digest = chunk}).ok());  // Used again.
  Push(store, trees, node.Write("c", 'c', 100));
  CHECK(trees.GetManifest(a.manifest).ok());
  CHECK(absl::IsNotFound(trees.GetManifest(b.manifest).status()));
  Push(store, trees, node.Write("large", 'd', 300));
  CHECK(Exists(node.path + "/large"));  // It does not fit: it stays with who has it.
  trees.FreeSpace();
  CHECK(fs::is_empty(node.kept()));
}

TEST_CASE("a fetch takes what other trees here have in common with it") {
  NodeTrees node;
  Counting store;
  LocalTrees trees(node.kept(), {});
  const std::string first = node.Write("a", 'a', 10'000);
  REQUIRE(WriteFileAtomic(first + "/step", "1").ok());
  Push(store, trees, first);
  const std::string second = node.Write("b", 'a', 10'000);
  REQUIRE(WriteFileAtomic(second + "/step", "2").ok());
  const StoredTree stored = Store(store, second);
  TreeFetcher fetcher(store, trees);
  REQUIRE(fetcher.Fetch(stored.manifest, node.path + "/back", node.path + "/back").ok());
  CHECK(store.chunks == 1);
}

TEST_CASE("a tree on its way here serves what has come, and is waited for") {
  NodeTrees node;
  MemStore store;
  LocalTrees trees(node.kept(), {});
  const std::string tree = node.Write("a", 'a', 1'000);
  REQUIRE(WriteFileAtomic(tree + "/later", "later").ok());
  const StoredTree stored = Store(store, tree);
  const uint64_t id = trees.Begin(stored.manifest, *ParseManifest(stored.text), tree);
  const std::string first = Digest(std::string(1'000, 'a')), later = Digest("later");
  trees.NoteWritten(id, 1);
  CHECK(trees.GetChunk({.digest = first}).ok());
  CHECK(absl::IsNotFound(trees.GetChunk({.digest = later}).status()));  // For another tree.
  // Whoever fetches it here as well does not wait for itself.
  CHECK(absl::IsNotFound(
      trees.GetChunk({.digest = later, .manifest = stored.manifest, .before = id}).status()));
  auto waits = std::async(std::launch::async, [&] {
    return trees.GetChunk({.digest = later, .manifest = stored.manifest});
  });
  SECTION("it comes") {
    trees.NoteWritten(id, 2);
    CHECK(*waits.get() == "later");
    CHECK(trees.Arriving().empty());  // Too small to be worth telling.
  }
  SECTION("it never comes") {
    trees.Drop(id);
    CHECK(absl::IsNotFound(waits.get().status()));
  }
}

TEST_CASE("what a program leaves unchanged is kept for the next, what it changed is not") {
  NodeTrees node;
  Counting store;
  LocalTrees trees(node.kept(), {});
  TreeFetcher fetcher(store, trees);
  const StoredTree stored = Store(store, node.Write("a", 'a', 1'000));
  const bool changes = GENERATE(false, true);
  const std::string run = node.path + "/run";
  REQUIRE(fetcher.Fetch(stored.manifest, run, run).ok());
  CHECK(store.chunks == 1);
  if (changes) REQUIRE(WriteFileAtomic(run + "/file", "x").ok());
  fetcher.Leave(run, true);
  CHECK(Exists(run) == changes);
  REQUIRE(fetcher.Fetch(stored.manifest, run + "2", run + "2").ok());
  CHECK(*ReadFile(run + "2/file") == std::string(1'000, 'a'));
  CHECK(store.chunks == (changes ? 2 : 1));
}

TEST_CASE("a replica stays: beyond the bounds, for the next daemon too, until it is released") {
  NodeTrees node;
  MemStore store;
  const Fence first{{Owner::Of(TrialId{{1}, 0}), 1, 1}, 0};
  const Fence second{{Owner::Of(TrialId{{1}, 1}), 1, 1}, 0};
  const StoredTree stored = Store(store, node.Write("a", 'a', 1'000));
  {
    LocalTrees trees(node.kept(), {.bytes = 0});
    const timespec now = FileClock();
    REQUIRE(trees.AddReplica(first, stored.manifest, stored.text, node.path + "/a", now).ok());
    CHECK_FALSE(Exists(node.path + "/a"));
    // The same bytes of another trial are held once, for both.
    const std::string again = node.Write("b", 'a', 1'000);
    REQUIRE(trees.AddReplica(second, stored.manifest, stored.text, again, FileClock()).ok());
    trees.FreeSpace();
    CHECK(trees.Replicas().size() == 2);
    CHECK(trees.Complete() == std::vector{stored.manifest});  // However small.
  }
  LocalTrees trees(node.kept(), {.bytes = 0});
  REQUIRE(trees.Replicas().size() == 2);
  CHECK(trees.ShareReplica(first, stored.manifest));
  CHECK_FALSE(trees.ShareReplica(first, Digest("nothing")));
  trees.Release(second, stored.manifest);
  CHECK(Exists(trees.ReplicaAt(stored.manifest)));
  MemStore nothing;
  TreeFetcher fetcher(nothing, trees);
  REQUIRE(fetcher.FetchReplica(stored.manifest, second, node.path + "/back").ok());
  CHECK(*ReadFile(node.path + "/back/file") == std::string(1'000, 'a'));
  trees.Release(first, stored.manifest);
  CHECK(trees.ReplicaAt(stored.manifest).empty());
  CHECK(fs::is_empty(node.kept()));  // Nothing is kept here.
}

TEST_CASE("a replica with a wrong byte is dropped, and a tree that has changed becomes none") {
  NodeTrees node;
  MemStore store;
  const Fence fence{{Owner::Of(TrialId{{1}, 0}), 1, 1}, 0};
  LocalTrees trees(node.kept(), {});
  const StoredTree stored = Store(store, node.Write("a", 'a', 1'000));
  const timespec before{1, 0};
  CHECK(absl::IsDataLoss(
      trees.AddReplica(fence, stored.manifest, stored.text, node.path + "/a", before)));
  REQUIRE(
      trees.AddReplica(fence, stored.manifest, stored.text, node.path + "/a", FileClock()).ok());
  REQUIRE(
      WriteFileAtomic(trees.ReplicaAt(stored.manifest) + "/file", std::string(1'000, 'b')).ok());
  MemStore nothing;
  TreeFetcher fetcher(nothing, trees);
  CHECK(absl::IsNotFound(fetcher.FetchReplica(stored.manifest, fence, node.path + "/back")));
  CHECK(trees.ReplicaAt(stored.manifest).empty());
  CHECK(trees.Replicas().empty());
}

}  // namespace rt::worker
