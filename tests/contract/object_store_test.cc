#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/status.h"
#include "common/cas/dir_objects.h"
#include "common/cas/mem_objects.h"
#include "common/run/files.h"
#include "tests/contract/object_store_suite.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {

size_t FilesIn(const std::string& folder) {
  auto at = std::filesystem::directory_iterator(folder);
  return static_cast<size_t>(std::distance(begin(at), end(at)));
}

void MakeOld(const std::string& path) {
  const timespec times[2] = {{1'000'000, 0}, {1'000'000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

}  // namespace

TEST_CASE("object store contract: memory") {
  MemObjects store;
  contract::CheckObjectStore(store, store);
}

TEST_CASE("object store contract: directory") {
  TempDir directory("objects");
  auto store = DirObjects::Open(directory.File("new/store"));
  REQUIRE(store.ok());
  auto other = DirObjects::Open(directory.File("new/store"));
  REQUIRE(other.ok());
  contract::CheckObjectStore(**store, **other);
  CHECK(FilesIn(directory.File("new/store/tmp")) == 0);
}

TEST_CASE("directory objects: of several processes one gets each key, and every key is whole") {
  TempDir directory("objects");
  constexpr int kProcesses = 4, kKeys = 50;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {  // Its exit code is how many keys it got, or 255.
      auto store = DirObjects::Open(directory.path());
      int got = 0;
      bool sound = store.ok();
      for (int key = 0; sound && key < kKeys; ++key) {
        absl::Status status = (*store)->PutIfAbsent("log/" + std::to_string(key),
                                                    std::string(2'000, static_cast<char>('a' + i)));
        got += status.ok();
        sound = status.ok() || absl::IsAlreadyExists(status);
      }
      ::_exit(sound ? got : 255);
    }
    children.push_back(child);
  }
  std::vector<int> got;
  for (pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) <= kKeys);
    got.push_back(WEXITSTATUS(status));
  }
  auto store = DirObjects::Open(directory.path());
  std::vector<int> owned(kProcesses, 0);
  for (int key = 0; key < kKeys; ++key) {
    auto bytes = (*store)->Get("log/" + std::to_string(key));
    REQUIRE(bytes.ok());
    REQUIRE(bytes->size() == 2'000);
    CHECK(*bytes == std::string(2'000, bytes->front()));
    ++owned[static_cast<size_t>(bytes->front() - 'a')];
  }
  CHECK(owned == got);
}

TEST_CASE("directory objects: what a crash left half-written is no object, and goes with time") {
  TempDir directory("objects");
  REQUIRE(DirObjects::Open(directory.path()).ok());
  REQUIRE(WriteFileAtomic(directory.File("tmp/of-a-crash"), "hal").ok());
  REQUIRE(WriteFileAtomic(directory.File("tmp/under-way"), "hal").ok());
  MakeOld(directory.File("tmp/of-a-crash"));
  auto store = DirObjects::Open(directory.path());
  REQUIRE(store.ok());
  CHECK((*store)->List("", "", 10)->empty());
  CHECK(!Exists(directory.File("tmp/of-a-crash")));
  CHECK(Exists(directory.File("tmp/under-way")));
}

TEST_CASE("directory objects: a write that fails names the path and leaves nothing") {
  TempDir directory("objects");
  auto store = DirObjects::Open(directory.path());
  REQUIRE(store.ok());
  // A file where the folder of the key would be; root ignores permissions, not this.
  REQUIRE(WriteFileAtomic(directory.File("objects/a+"), "").ok());
  for (absl::Status status : {(*store)->Put("a/b", "x"), (*store)->PutIfAbsent("a/b", "x")}) {
    CHECK(!status.ok());
    CHECK(MessageOf(status).find(directory.path()) != std::string::npos);
  }
  CHECK(FilesIn(directory.File("tmp")) == 0);
}

TEST_CASE("directory objects: names that no key has are left alone") {
  TempDir directory("objects");
  auto store = DirObjects::Open(directory.path());
  REQUIRE((*store)->Put("a", "x").ok());
  REQUIRE(WriteFileAtomic(directory.File("objects/of somebody else"), "").ok());
  CHECK(contract::KeysOf(*(*store)->List("", "", 10)) == std::vector<std::string>{"a"});
}
