#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/cas/manifest.h"

using namespace rt;

namespace {
using Kind = ManifestEntry::Kind;

std::string Header(const std::string& entries) {
  return "{\"format\":\"rt-manifest-1\",\"chunk_bytes\":4194304,\"entries\":[" + entries + "]}";
}
}  // namespace

TEST_CASE("manifest: the same tree has one spelling, and reads back") {
  ManifestEntry file{.path = "b/x", .mode = 0755, .size = 3, .chunks = {Digest("abc")}};
  ManifestEntry link{.path = "a", .kind = Kind::kLink, .target = "b/x"};
  ManifestEntry empty{.path = "c", .kind = Kind::kDirectory};
  auto one = FormatManifest({.entries = {file, link, empty}});
  auto two = FormatManifest({.entries = {empty, link, file}});
  REQUIRE(one.ok());
  CHECK(*one == *two);
  auto parsed = ParseManifest(*one);
  REQUIRE(parsed.ok());
  CHECK(parsed->entries.size() == 3);
  CHECK(parsed->entries[0].target == "b/x");
  ManifestEntry read = parsed->entries[1];
  CHECK(read == file);
  CHECK(ChunksOf(*parsed) == file.chunks);
  CHECK(ParseManifest(Header("")).ok());
}

TEST_CASE("manifest: paths that lead outside or hide something are refused") {
  for (std::string path : {"", "/a", "../a", "a/../b", "a//b", "./a", "a/", "."}) {
    INFO(path);
    CHECK(!CheckRelativePath(path).ok());
    CHECK(!FormatManifest({.entries = {{.path = path}}}).ok());
  }
  CHECK(!CheckRelativePath(std::string("a\0b", 3)).ok());
  CHECK(!CheckRelativePath("\xff").ok());
  CHECK(!CheckRelativePath(std::string(256, 'a')).ok());
  std::string deep = "a";
  while (deep.size() < 4'096) deep += "/a";
  CHECK(!CheckRelativePath(deep).ok());
  CHECK(CheckRelativePath("a/..b/.c").ok());
}

TEST_CASE("manifest: links stay inside, also through other links") {
  CHECK(CheckLinkTarget("a/b", "../c").ok());
  CHECK(CheckLinkTarget("a", "b/c").ok());
  for (const char* target : {"/etc/passwd", "../../x", "", "s/..", "s/s/../../x"}) {
    INFO(target);
    CHECK(!CheckLinkTarget("a/b", target).ok());
  }
}

TEST_CASE("manifest: duplicates and entries below files or links are refused") {
  CHECK(!FormatManifest({.entries = {{.path = "a"}, {.path = "a"}}}).ok());
  CHECK(!FormatManifest({.entries = {{.path = "a"}, {.path = "a/b"}}}).ok());
  ManifestEntry link{.path = "l", .kind = Kind::kLink, .target = "."};
  CHECK(!FormatManifest({.entries = {link, {.path = "l/b"}}}).ok());
  CHECK(FormatManifest({.entries = {{.path = "a"}, {.path = "a.b"}, {.path = "ab"}}}).ok());
}

TEST_CASE("manifest: sizes, modes and digests must be right") {
  CHECK(!FormatManifest({.entries = {{.path = "a", .size = 1}}}).ok());
  CHECK(!FormatManifest({.entries = {{.path = "a", .size = -1}}}).ok());
  CHECK(!FormatManifest({.entries = {{.path = "a", .mode = 04755}}}).ok());
  CHECK(!FormatManifest({.entries = {{.path = "a", .mode = 0666}}}).ok());
  CHECK(!FormatManifest({.entries = {{.path = "a", .size = 1, .chunks = {"../x"}}}}).ok());
  CHECK(!FormatManifest({.chunk_bytes = 0}).ok());
}

TEST_CASE("manifest: what is not canonical is refused") {
  const std::string good = R"({"path":"a","mode":420,"size":0,"chunks":[]})";
  REQUIRE(ParseManifest(Header(good)).ok());
  CHECK(!ParseManifest(Header(good) + " ").ok());
  CHECK(!ParseManifest(Header(R"({"path":"b","dir":true},)" + good)).ok());
  CHECK(!ParseManifest(Header(R"({"path":"a","mode":420,"size":0,"chunks":[],"x":1})")).ok());
  CHECK(!ParseManifest(Header(R"({"path":"a","mode":4294967716,"size":0,"chunks":[]})")).ok());
  CHECK(!ParseManifest(Header(R"({"path":"a","dir":false})")).ok());
  CHECK(!ParseManifest(Header("7")).ok());
  CHECK(!ParseManifest("{}").ok());
  CHECK(!ParseManifest("[]").ok());
  CHECK(!ParseManifest("").ok());
}

TEST_CASE("manifest: cuts that are not the fixed ones are named and make up the size") {
  ManifestEntry file{.path = "a", .size = 6'000'000, .chunks = {Digest("1"), Digest("2")},
                     .cuts = {3'000'000, 3'000'000}};
  auto text = FormatManifest({.entries = {file}});
  REQUIRE(text.ok());
  CHECK(text->find("\"cuts\":[3000000,3000000]") != std::string::npos);
  CHECK(ParseManifest(*text)->entries[0] == file);
  CHECK(SpansOf(file, 4'194'304)[1] == ChunkSpan{3'000'000, 3'000'000});
  for (std::vector<Bytes> cuts : {std::vector<Bytes>{4'194'304, 1'805'696}, {5'000'000, 1'000'000},
                                  {3'000'000, 2'999'999}, {3'000'000}, {6'000'000, 0},
                                  {3'000'000, 2'000'000, 1'000'000}}) {
    file.cuts = cuts;
    CHECK(!FormatManifest({.entries = {file}}).ok());
  }
}
