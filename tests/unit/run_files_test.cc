#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/run/copy_tree.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"

using namespace rt;

TEST_CASE("files: a write replaces the whole, with the mode that was asked for") {
  TempDir folder("files");
  std::string path = folder.File("f");
  for (const char* text : {"one", "twotwo", ""}) {
    REQUIRE(WriteFileAtomic(path, text, {.mode = 0640}).ok());
    CHECK(*ReadFile(path) == text);
  }
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);
  CHECK(!WriteFileAtomic(folder.File("absent/f"), "x").ok());
}

TEST_CASE("files: two temporary directories of one start are two, and only for us") {
  TempDir folder("files");
  auto first = MakeTempDirectory(folder.File("a-"));
  auto second = MakeTempDirectory(folder.File("a-"));
  REQUIRE((first.ok() && second.ok()));
  CHECK(*first != *second);
  CHECK(first->starts_with(folder.File("a-")));
  CHECK(first->size() == folder.File("a-").size() + 6);
  struct stat info {};
  REQUIRE(::stat(first->c_str(), &info) == 0);
  CHECK(S_ISDIR(info.st_mode));
  CHECK((info.st_mode & 0777) == 0700);
  CHECK(!MakeTempDirectory(folder.File("absent/a-")).ok());
}

TEST_CASE("files: a temporary directory of a test goes with all that is in it") {
  std::string path;
  {
    TempDir folder("files");
    path = folder.path();
    CHECK(path.starts_with("/tmp/rt-files-"));
    REQUIRE(EnsureDirectory(folder.File("a/b")).ok());
    REQUIRE(WriteFileAtomic(folder.File("a/b/f"), "x").ok());
  }
  CHECK(!Exists(path));
}

TEST_CASE("files: absence and length are told apart") {
  TempDir folder("files");
  CHECK(absl::IsNotFound(ReadFile(folder.File("absent")).status()));
  REQUIRE(WriteFileAtomic(folder.File("f"), "12345").ok());
  CHECK(absl::IsOutOfRange(ReadFile(folder.File("f"), 4).status()));
  CHECK(ReadFile(folder.File("f"), 5).ok());
}

TEST_CASE("files: directories are made with their parents, private") {
  TempDir folder("files");
  REQUIRE(EnsureDirectory(folder.File("a/b/c")).ok());
  REQUIRE(EnsureDirectory(folder.File("a/b/c")).ok());
  struct stat info {};
  REQUIRE(::stat(folder.File("a/b").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  REQUIRE(WriteFileAtomic(folder.File("f"), "x").ok());
  CHECK(!EnsureDirectory(folder.File("f")).ok());
  CHECK(!EnsureDirectory(folder.File("f/g")).ok());
  CHECK(RemoveTree(folder.File("a")).ok());
  CHECK(RemoveTree(folder.File("a")).ok());
  CHECK(!Exists(folder.File("a")));
}

TEST_CASE("files: the second taker of a lock learns who holds it, and its release frees it") {
  TempDir folder("files");
  {
    auto lock = DirectoryLock::Acquire(folder.path());
    REQUIRE(lock.ok());
    auto second = DirectoryLock::Acquire(folder.path());
    REQUIRE(absl::IsFailedPrecondition(second.status()));
    CHECK(MessageOf(second.status()).find("process " + std::to_string(::getpid())) !=
          std::string::npos);
  }
  CHECK(DirectoryLock::Acquire(folder.path()).ok());
}

TEST_CASE("files: the lock of a process that was killed is waited for") {
  TempDir folder("files");
  constexpr size_t kHeld = 64 << 20;  // Its end takes the kernel a while.
  for (int round = 0; round < 10; ++round) {
    int ready[2];
    REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      std::string held(kHeld, 'x');
      auto lock = DirectoryLock::Acquire(folder.path());
      if (!lock.ok() || ::write(ready[1], held.data(), 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
    REQUIRE(::kill(child, SIGKILL) == 0);
    CHECK(DirectoryLock::Acquire(folder.path()).ok());
    CHECK(::waitpid(child, nullptr, 0) == child);
  }
}

TEST_CASE("files: a copy has the bytes of a sparse file, and its holes") {
  TempDir folder("files");
  const std::string sparse = folder.File("sparse");
  REQUIRE(WriteFileAtomic(sparse, "head").ok());
  const int file = ::open(sparse.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  constexpr off_t kMiddle = 32 << 20, kSize = 64 << 20;
  REQUIRE(::pwrite(file, "middle", 6, kMiddle) == 6);
  REQUIRE(::ftruncate(file, kSize) == 0);
  ::close(file);
  REQUIRE(CopyFile(sparse, folder.File("copy"), CopyMode::kCloneOrCopy).ok());
  struct stat copied {};
  REQUIRE(::stat(folder.File("copy").c_str(), &copied) == 0);
  CHECK(copied.st_size == kSize);
  CHECK(copied.st_blocks * 512 < 4 << 20);
  CHECK(*ReadFile(folder.File("copy"), kSize) == *ReadFile(sparse, kSize));
}
