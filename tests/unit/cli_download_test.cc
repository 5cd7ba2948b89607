// A tree that comes in several goes, and the record of what a directory holds.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "cli/download/download_log.h"
#include "cli/download/download_parts.h"
#include "cli/download/tree_download.h"
#include "common/base/status.h"
#include "common/cas/mem_store.h"
#include "common/cas/tree.h"
#include "tests/temp_dir.h"

namespace rt {
namespace {

namespace fs = std::filesystem;

void Write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string Read(const std::string& path) {
  auto text = ReadFile(path);
  return text.ok() ? *text : "none";
}

// Breaks off after so many chunks, as a client that is killed does.
class BrokenSource final : public BlobSource {
 public:
  BrokenSource(BlobSource& store, int chunks) : store_(store), left_(chunks) {}
  absl::StatusOr<std::string> GetChunk(const std::string& digest) override {
    if (--left_ < 0) return absl::UnavailableError("killed");
    return store_.GetChunk(digest);
  }
  absl::StatusOr<std::string> GetManifest(const std::string& digest) override {
    return store_.GetManifest(digest);
  }

 private:
  BlobSource& store_;
  std::atomic<int> left_;
};

std::string Bytes20MiB() {
  std::string bytes(20u << 20, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((i >> 20) * 7 + i);
  return bytes;
}

TEST_CASE("download: a tree that broke off continues, and what lies there is verified") {
  TempDir temp("download");
  MemStore store;
  const std::string model = Bytes20MiB();
  Write(temp.File("tree/a"), "small");
  Write(temp.File("tree/model"), model);
  auto stored = StoreTree(store, temp.File("tree"), {});
  REQUIRE(stored.ok());
  const std::string target = temp.File("out/checkpoint");
  BrokenSource broken(store, 4);  // "a" and three of the five chunks of the model.
  REQUIRE_FALSE(FetchTrees(broken, {stored->manifest}, target).ok());
  REQUIRE_FALSE(Exists(target));

  SECTION("only what is missing is fetched") {
    auto fetched = FetchTrees(store, {stored->manifest}, target);
    REQUIRE(fetched.ok());
    CHECK(*fetched < Bytes{20} << 20);
  }
  SECTION("bytes that are not what was stored are fetched again") {
    for (const auto& part : fs::directory_iterator(temp.File("out"))) {
      Write(part.path().string() + "/a", "SMALL");
      Write(part.path().string() + "/model", std::string(12u << 20, 'x'));
    }
    REQUIRE(FetchTrees(store, {stored->manifest}, target).ok());
  }
  CHECK(Read(target + "/a") == "small");
  CHECK(Read(target + "/model") == model);
  CHECK(std::distance(fs::directory_iterator(temp.File("out")), fs::directory_iterator()) == 1);
  CHECK(*HoldsTrees(store, {stored->manifest}, target));
  Write(target + "/more", "");
  CHECK_FALSE(*HoldsTrees(store, {stored->manifest}, target));
}

TEST_CASE("download: of one name the last tree's file stays") {
  TempDir temp("download");
  MemStore store;
  Write(temp.File("one/shared"), "one");
  Write(temp.File("one/own"), "1");
  Write(temp.File("two/shared"), "two");
  auto one = StoreTree(store, temp.File("one"), {}), two = StoreTree(store, temp.File("two"), {});
  REQUIRE(FetchTrees(store, {one->manifest, two->manifest}, temp.File("out")).ok());
  CHECK(Read(temp.File("out/shared")) == "two");
  CHECK(Read(temp.File("out/own")) == "1");
  CHECK(*HoldsTrees(store, {one->manifest, two->manifest}, temp.File("out")));
}

TEST_CASE("download log: a file is fresh while its version and the file itself are the same") {
  TempDir temp("download");
  const DownloadSource source{"c", "experiment", 3};
  Write(temp.File("t/stdout"), "said");
  {
    auto log = DownloadLog::Open(temp.path(), source);
    REQUIRE(log.ok());
    (*log)->Note("t/stdout", "a1");
    (*log)->Note("t/stderr", "a1");  // Nothing lies there, and nothing should.
    REQUIRE((*log)->Save().ok());
  }
  {
    auto log = DownloadLog::Open(temp.path(), source);
    REQUIRE(log.ok());
    CHECK((*log)->Has("t/stdout", "a1"));
    CHECK((*log)->Has("t/stderr", "a1"));
    CHECK_FALSE((*log)->Has("t/stdout", "a2"));
    Write(temp.File("t/stdout"), "longer");
    CHECK_FALSE((*log)->Has("t/stdout", "a1"));
    CHECK((*log)->Below("t/") == std::vector<std::string>{"t/stderr", "t/stdout"});
  }
  CHECK(absl::IsFailedPrecondition(DownloadLog::Open(temp.path(), {"c", "job", 3}).status()));
  CHECK(FreeDownloadDirectory(fs::path(temp.path()).parent_path().string(),
                              fs::path(temp.path()).filename().string(), source) == temp.path());
}

TEST_CASE("download log: entries that lead out of the directory are dropped") {
  TempDir temp("download");
  const DownloadSource source{"c", "experiment", 3};
  const std::string target = temp.File("out");
  Write(target + "/.rt-download.json",
        R"({"schema":1,"source":{"cluster":"c","kind":"experiment","id":3},"files":{)"
        R"("t/error.txt":{},"../victim/error.txt":{},"/etc/error.txt":{},"t/../../error.txt":{},)"
        R"(".rt-download.lock":{},"":{}}})");
  auto log = DownloadLog::Open(target, source);
  INFO(log.status().ToString());
  REQUIRE(log.ok());
  CHECK((*log)->Below("") == std::vector<std::string>{"t/error.txt"});
}

TEST_CASE("download: nothing is written or removed through a link in its directory") {
  TempDir temp("download");
  const std::string target = temp.File("out");
  Write(target + "/own/error.txt", "old");
  Write(temp.File("victim/error.txt"), "not ours");
  fs::create_directory_symlink(temp.File("victim"), target + "/t");
  auto log = DownloadLog::Open(target, {"c", "experiment", 3});
  REQUIRE(log.ok());
  for (const char* path : {"own/error.txt", "t/error.txt", "kept/error.txt"})
    (*log)->Note(path, "1");
  REQUIRE(RemoveUnlisted({"kept/error.txt"}, **log).ok());
  CHECK(Read(temp.File("victim/error.txt")) == "not ours");
  CHECK_FALSE(Exists(target + "/own/error.txt"));
  CHECK((*log)->Below("") == std::vector<std::string>{"kept/error.txt"});
  const absl::Status behind = CheckNoLink(target, "t/result.json");
  CHECK(absl::IsFailedPrecondition(behind));
  CHECK(MessageOf(behind) == target + "/t is a link");
  CHECK(CheckNoLink(target, "own/new/result.json").ok());
}

TEST_CASE("download: a directory in which another download has just begun is free") {
  TempDir temp("download");
  CHECK(IsFreeForDownload(temp.path()));
  for (const char* own : {".rt-download.lock", ".rt-download.json.tmp.7.1", ".rt-download.json"}) {
    Write(temp.File(own), "");
    CHECK(IsFreeForDownload(temp.path()));
  }
  Write(temp.File("mine"), "");
  CHECK_FALSE(IsFreeForDownload(temp.path()));
}

TEST_CASE("download: the head's names for files stay in the directory, and are not rt's own") {
  for (const char* path : {"t/result.json", "t/.rt-part", ".hidden", "..x"})
    CHECK(CheckDownloadPath(path).ok());
  for (const char* path : {"", "/t", "t/../x", "..", "t//x", ".rt-download.json",
                           ".rt-download.lock", ".rt-x/y"})
    CHECK_FALSE(CheckDownloadPath(path).ok());
}

}  // namespace
}  // namespace rt
