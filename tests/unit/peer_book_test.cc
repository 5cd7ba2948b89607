#include <catch2/catch.hpp>

#include "head/service/peer_book.h"

using namespace rt;

namespace {

const std::string kTree = "b3:" + std::string(64, 'a');

struct Book {
  PeerBook book;
  std::set<NodeId> alive;
  Millis now = 1'000'000;
  static std::string At(uint64_t node) { return "10.0.0." + std::to_string(node) + ":7"; }
  std::vector<uint64_t> Find(uint64_t asker) {
    alive.insert(NodeId{asker});
    std::vector<uint64_t> found;
    for (const auto& source : book.Find({NodeId{asker}, At(asker), kTree}, alive, now)) {
      CHECK(source.address == At(source.node.value));
      found.push_back(source.node.value);
    }
    return found;
  }
  void Announce(uint64_t node, std::vector<std::string> whole, std::vector<NodeId> failed = {}) {
    alive.insert(NodeId{node});
    book.Announce(NodeId{node}, {At(node), std::move(whole), {}, std::move(failed)}, now);
  }
};

}  // namespace

TEST_CASE("peer book: of eight that begin at once one goes to the store, and nobody serves three") {
  Book book;
  std::map<uint64_t, int> children;
  for (uint64_t node = 1; node <= 8; ++node) {
    const auto found = book.Find(node);
    if (node == 1) {
      CHECK(found.empty());
      continue;
    }
    REQUIRE(!found.empty());
    CHECK(found.front() < node);  // It began before: nobody waits in a circle.
    CHECK(++children[found.front()] <= 2);
  }
}

TEST_CASE("peer book: whoever has all of it is asked before one that is getting it") {
  Book book;
  CHECK(book.Find(1).empty());
  book.Announce(2, {kTree});
  CHECK(book.Find(3) == std::vector<uint64_t>{2, 1});
}

TEST_CASE("peer book: the same machine is asked first") {
  Book book;
  book.Announce(2, {kTree});
  book.Announce(3, {kTree});
  book.alive.insert(NodeId{4});
  const auto found = book.book.Find({NodeId{4}, "10.0.0.3:9", kTree}, book.alive, book.now);
  REQUIRE(!found.empty());
  CHECK(found.front().node == NodeId{3});
}

TEST_CASE("peer book: who is lost, silent, failed, or has it no more is not named") {
  Book book;
  book.Announce(2, {kTree});
  CHECK(book.Find(9) == std::vector<uint64_t>{2});
  book.Announce(9, {});
  SECTION("lost") { book.alive.erase(NodeId{2}); }
  SECTION("silent") { book.now += 200'000; }
  SECTION("failed") { book.Announce(9, {}, {NodeId{2}}); }
  SECTION("no more") { book.Announce(2, {}); }
  CHECK(book.Find(9).empty());
}

TEST_CASE("peer book: one that serves nobody is not named, and a fetch begun anew is no source") {
  Book book;
  book.alive.insert(NodeId{1});
  CHECK(book.book.Find({NodeId{1}, "", kTree}, book.alive, book.now).empty());
  CHECK(book.Find(2).empty());
  CHECK(book.Find(2).empty());  // Not itself.
}

TEST_CASE("peer book: a node's trees are bounded") {
  Book book;
  std::vector<std::string> many;
  for (size_t i = 0; i < limits::kAnnouncedTreesPerNode + 5; ++i) {
    std::string hex = std::to_string(i);
    many.push_back("b3:" + std::string(64 - hex.size(), '0') + hex);
  }
  book.Announce(1, many);
  book.alive.insert(NodeId{2});
  CHECK(!book.book.Find({NodeId{2}, "x:1", many.front()}, book.alive, book.now).empty());
  CHECK(book.book.Find({NodeId{2}, "x:1", many.back()}, book.alive, book.now).empty());
}
