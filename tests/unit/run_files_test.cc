#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "common/base/status.h"
#include "common/run/files.h"

using namespace rt;

namespace {
struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/rt_files_XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { (void)RemoveTree(path); }
};
}  // namespace

TEST_CASE("files: a write replaces the whole, with the mode that was asked for") {
  Folder folder;
  std::string path = folder.path + "/f";
  for (const char* text : {"one", "twotwo", ""}) {
    REQUIRE(WriteFileAtomic(path, text, {.mode = 0640}).ok());
    CHECK(*ReadFile(path) == text);
  }
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);
  CHECK(!WriteFileAtomic(folder.path + "/absent/f", "x").ok());
}

TEST_CASE("files: absence and length are told apart") {
  Folder folder;
  CHECK(absl::IsNotFound(ReadFile(folder.path + "/absent").status()));
  REQUIRE(WriteFileAtomic(folder.path + "/f", "12345").ok());
  CHECK(absl::IsOutOfRange(ReadFile(folder.path + "/f", 4).status()));
  CHECK(ReadFile(folder.path + "/f", 5).ok());
}

TEST_CASE("files: directories are made with their parents, private") {
  Folder folder;
  REQUIRE(EnsureDirectory(folder.path + "/a/b/c").ok());
  REQUIRE(EnsureDirectory(folder.path + "/a/b/c").ok());
  struct stat info {};
  REQUIRE(::stat((folder.path + "/a/b").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  REQUIRE(WriteFileAtomic(folder.path + "/f", "x").ok());
  CHECK(!EnsureDirectory(folder.path + "/f").ok());
  CHECK(!EnsureDirectory(folder.path + "/f/g").ok());
  CHECK(RemoveTree(folder.path + "/a").ok());
  CHECK(RemoveTree(folder.path + "/a").ok());
  CHECK(!Exists(folder.path + "/a"));
}

TEST_CASE("files: the second taker of a lock learns who holds it, and its release frees it") {
  Folder folder;
  {
    auto lock = DirectoryLock::Acquire(folder.path);
    REQUIRE(lock.ok());
    auto second = DirectoryLock::Acquire(folder.path);
    REQUIRE(absl::IsFailedPrecondition(second.status()));
    CHECK(MessageOf(second.status()).find("process " + std::to_string(::getpid())) !=
          std::string::npos);
  }
  CHECK(DirectoryLock::Acquire(folder.path).ok());
}
