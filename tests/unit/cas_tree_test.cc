#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/cas/manifest.h"
#include "common/cas/mem_store.h"
#include "common/cas/tree.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"

using namespace rt;
namespace fs = std::filesystem;

namespace {

struct Folder {
  TempDir dir{"tree"};
  const std::string& path = dir.path();
  void Write(const std::string& relative, std::string_view text, mode_t mode = 0644) const {
    REQUIRE(EnsureDirectory(fs::path(path + "/" + relative).parent_path().string()).ok());
    REQUIRE(WriteFileAtomic(path + "/" + relative, text, {.mode = mode, .sync = false}).ok());
  }
  std::string Read(const std::string& relative) const {
    return ReadFile(path + "/" + relative).value_or("(absent)");
  }
};

std::vector<std::string> PathsOf(MemStore& store, const StoredTree& tree) {
  std::vector<std::string> paths;
  auto manifest = ParseManifest(*store.GetManifest(tree.manifest));
  REQUIRE(manifest.ok());
  for (const ManifestEntry& entry : manifest->entries) paths.push_back(entry.path);
  return paths;
}

}  // namespace

TEST_CASE("tree: files, modes, links and empty folders come back") {
  Folder from, to;
  std::string big(9'000'000, 'b');
  big[5'000'000] = 'x';
  from.Write("model/big.bin", big);
  from.Write("run.sh", "echo", 0755);
  from.Write("zero", "");
  fs::create_directory(from.path + "/empty");
  fs::create_symlink("model/big.bin", from.path + "/latest");
  MemStore store;
  auto stored = StoreTree(store, from.path, {});
  REQUIRE(stored.ok());
  CHECK(stored->files == 3);
  CHECK(stored->bytes == 9'000'004);
  std::string target = to.path + "/new/place";
  REQUIRE(RestoreTree(store, stored->manifest, target).ok());
  REQUIRE(RestoreTree(store, stored->manifest, target).ok());
  CHECK((*ReadFile(target + "/model/big.bin") == big));
  CHECK(fs::file_size(target + "/zero") == 0);
  CHECK(fs::is_directory(target + "/empty"));
  CHECK(fs::read_symlink(target + "/latest") == "model/big.bin");
  struct stat info {};
  REQUIRE(::stat((target + "/run.sh").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0755);
  CHECK(StoreTree(store, target, {})->manifest == stored->manifest);
}

TEST_CASE("tree: equal content is stored once; one file is a tree") {
  Folder from, to;
  from.Write("a", "same");
  from.Write("b", "same");
  MemStore store;
  REQUIRE(StoreTree(store, from.path, {}).ok());
  CHECK(store.chunk_count() == 1);
  auto single = StoreTree(store, from.path + "/a", {});
  REQUIRE(single.ok());
  CHECK(PathsOf(store, *single) == std::vector<std::string>{"a"});
  CHECK(StoreTree(store, from.path + "/absent", {}).status().code() ==
        absl::StatusCode::kNotFound);
}

TEST_CASE("tree: a bundle leaves out what is ignored, and a checkpoint takes everything") {
  Folder from;
  from.Write(".gitignore", "*.log\n!keep.log\nout/\n");
  from.Write(".rtignore", "/data\n");
  from.Write(".git/config", "x");
  from.Write("main.py", "x");
  from.Write("a.log", "x");
  from.Write("keep.log", "x");
  from.Write("out/keep.log", "x");
  from.Write("data/d", "x");
  from.Write("sub/.gitignore", "local\n");
  from.Write("sub/local", "x");
  from.Write("sub/data/d", "x");
  from.Write("home/state", "x");
  fs::create_directory(from.path + "/empty");
  fs::create_symlink("/etc/passwd", from.path + "/absolute");
  REQUIRE(::mkfifo((from.path + "/fifo").c_str(), 0600) == 0);
  MemStore store;
  auto bundle = StoreTree(
      store, from.path, {.honour_ignore_files = true, .exclude = {from.path + "/home"}});
  REQUIRE(bundle.ok());
  CHECK(PathsOf(store, *bundle) ==
        std::vector<std::string>{".gitignore", ".rtignore", "empty", "keep.log", "main.py",
                                 "sub/.gitignore", "sub/data/d"});
  CHECK(!StoreTree(store, from.path, {}).ok());  // The link that leads outside.
  fs::remove(from.path + "/absolute");
  auto all = StoreTree(store, from.path, {});
  REQUIRE(all.ok());
  CHECK(all->files == 12);
}

TEST_CASE("tree: a bundle keeps empty directories, and what is left out does not show in it") {
  Folder from;
  from.Write(".gitignore", "*.log\n");
  from.Write("main.py", "x");
  MemStore store;
  auto digest = [&] {
    return StoreTree(store, from.path, {.honour_ignore_files = true})->manifest;
  };
  const std::string without = digest();
  fs::create_directories(from.path + "/logs");
  from.Write("logs/a.log", "x");
  CHECK(digest() == without);
  fs::remove(from.path + "/logs/a.log");
  const std::string with = digest();
  CHECK(with != without);
  Folder to;
  const std::string target = to.path + "/target";
  REQUIRE(RestoreTree(store, with, target).ok());
  CHECK(fs::is_directory(target + "/logs"));
}

TEST_CASE("tree: a bundle leaves out virtual environments and node_modules unless told so") {
  Folder from;
  from.Write("train.py", "code");
  from.Write("wv/pyvenv.cfg", "");
  from.Write("wv/lib/torch.so", std::string(1'000, 't'));
  from.Write("web/node_modules/left-pad/index.js", "js");
  from.Write("web/index.html", "html");
  fs::create_symlink("/usr/bin/python3", from.path + "/python3");
  MemStore store;
  auto stored = StoreTree(store, from.path, {.honour_ignore_files = true});
  REQUIRE(stored.ok());
  fs::remove(from.path + "/python3");
  CHECK(PathsOf(store, *stored) == std::vector<std::string>{"train.py", "web/index.html"});
  CHECK(stored->left_out ==
        std::map<std::string, std::string>{{"python3", "it links outside the directory"},
                                           {"web/node_modules/", "packages of Node"},
                                           {"wv/", "a virtual environment"}});
  auto size = MeasureTree(from.path, {.honour_ignore_files = true});
  REQUIRE(size.ok());
  CHECK(size->files == 2);
  CHECK(size->bytes == 8);
  CHECK(size->entries == std::map<std::string, Bytes>{{"train.py", 4}, {"web/", 4}});
  from.Write(".rtignore", "!wv/\n");
  size = MeasureTree(from.path, {.honour_ignore_files = true});
  REQUIRE(size.ok());
  CHECK(size->entries.at("wv/") == 1'000);
  CHECK(StoreTree(store, from.path, {})->files == 6);  // A checkpoint takes everything.
}

TEST_CASE("tree: a restore never writes through a link that lies in its way") {
  Folder from, to, outside;
  from.Write("d/file", "new");
  outside.Write("file", "old");
  MemStore store;
  auto stored = StoreTree(store, from.path, {});
  fs::create_directory_symlink(outside.path, to.path + "/d");
  CHECK(!RestoreTree(store, stored->manifest, to.path).ok());
  CHECK(outside.Read("file") == "old");
  fs::remove(to.path + "/d");
  fs::create_directory(to.path + "/d");
  fs::create_symlink(outside.path + "/file", to.path + "/d/file");
  CHECK(RestoreTree(store, stored->manifest, to.path).ok());
  CHECK(outside.Read("file") == "old");
  CHECK(to.Read("d/file") == "new");
}

TEST_CASE("tree: damaged and lost chunks are errors that name the file") {
  Folder from, to;
  from.Write("weights", "abc");
  MemStore store;
  auto stored = StoreTree(store, from.path, {});
  store.Damage(Digest("abc"));
  absl::Status status = RestoreTree(store, stored->manifest, to.path);
  CHECK(absl::IsDataLoss(status));
  CHECK(MessageOf(status).find("weights") != std::string::npos);
  store.Forget(Digest("abc"));
  CHECK(absl::IsNotFound(RestoreTree(store, stored->manifest, to.path)));
}

TEST_CASE("tree: a store that fails ends the storing, whichever chunk it is") {
  class Failing : public MemStore {
   public:
    int left = 0;
    absl::Status PutChunk(const std::string& digest, std::string_view bytes) override {
      if (left-- == 0) return absl::ResourceExhaustedError("the disk is full");
      return MemStore::PutChunk(digest, bytes);
    }
  };
  Folder from;
  for (int i = 0; i < 1'500; ++i) from.Write("d/" + std::to_string(i), std::to_string(i));
  for (int left : {0, 700, 1'300, 1'499}) {  // In the first batch of a thousand, and in the last.
    Failing store;
    store.left = left;
    auto stored = StoreTree(store, from.path, {});
    CHECK(absl::IsResourceExhausted(stored.status()));
  }
  Failing store;
  store.left = 1'500;
  CHECK(StoreTree(store, from.path, {}).ok());
}

TEST_CASE("tree: a chunk that is gone when the manifest comes is stored again, once") {
  class Losing : public MemStore {
   public:
    int losses = 0;
    absl::StatusOr<std::string> PutManifest(std::string_view text) override {
      if (losses-- > 0) Forget(Digest("lost"));
      return MemStore::PutManifest(text);
    }
  };
  Folder from;
  from.Write("a", "lost");
  Losing store;
  store.losses = 1;
  auto stored = StoreTree(store, from.path, {});
  REQUIRE(stored.ok());
  CHECK(store.GetChunk(Digest("lost")).ok());
  store.losses = 2;
  CHECK(absl::IsFailedPrecondition(StoreTree(store, from.path, {}).status()));
}

TEST_CASE("tree: storing ends before the next chunk once it is cancelled") {
  Folder from;
  from.Write("a", std::string(20'000'000, 'a'));
  MemStore store;
  int asked = 0;
  auto stored = StoreTree(store, from.path, {.is_cancelled = [&] { return ++asked == 3; }});
  CHECK(absl::IsCancelled(stored.status()));
  CHECK(asked == 3);
}

TEST_CASE("tree: a file whose manifest would be too long is refused before it is read") {
  Folder from;
  from.Write("weights", "");
  fs::resize_file(from.path + "/weights", uintmax_t{8} << 40);  // Sparse.
  MemStore store;
  int chunks = 0;
  auto stored = StoreTree(store, from.path, {.is_cancelled = [&] { return ++chunks > 9; }});
  CHECK(absl::IsInvalidArgument(stored.status()));
  CHECK(chunks == 0);
  CHECK(MessageOf(stored.status()).find("8.0 TiB") != std::string::npos);
  CHECK(MessageOf(stored.status()).find("15.0 MiB") != std::string::npos);
}

TEST_CASE("tree: a file that grows or shrinks while it is read is stored as it was read") {
  Folder from, to;
  for (const Bytes size : {Bytes{15} << 20, Bytes{9} << 20, Bytes{5} << 20}) {
    CAPTURE(size);
    from.Write("file", std::string(10 << 20, 'a'));
    const auto resize = [&](Bytes) { fs::resize_file(from.path + "/file", size); };
    MemStore store;
    auto stored = StoreTree(store, from.path, {.on_progress = resize});
    REQUIRE(stored.ok());
    REQUIRE(RestoreTree(store, stored->manifest, to.path).ok());
    CHECK(stored->bytes == size);
    CHECK(to.Read("file") == from.Read("file"));
  }
}

TEST_CASE("tree: a bundle lacks what goes while it is taken; a checkpoint must be whole") {
  Folder from;
  from.Write("a", std::string(100, 'a'));
  from.Write("b", "1");
  from.Write("c/d", "2");
  const auto remove_others = [&](Bytes) {
    fs::remove(from.path + "/b");
    fs::remove_all(from.path + "/c");
  };
  MemStore store;
  auto bundle =
      StoreTree(store, from.path, {.honour_ignore_files = true, .on_progress = remove_others});
  REQUIRE(bundle.ok());
  CHECK(PathsOf(store, *bundle) == std::vector<std::string>{"a"});
  from.Write("b", "1");
  CHECK_FALSE(StoreTree(store, from.path, {.on_progress = remove_others}).ok());
}
