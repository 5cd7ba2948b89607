// What of a run directory may be used again, and what must not be.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>

#include "common/base/limits.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "worker/launch/run_dirs.h"

namespace rt::worker {
namespace {

namespace fs = std::filesystem;

Fence FenceOf(uint32_t number) {
  return {{Owner::Of(TrialId{ExperimentId{1}, number}), 1, 1}, 0};
}
ino_t InodeOf(const std::string& path) {
  struct stat info {};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info.st_ino;
}

TEST_CASE("the next attempt gets the directory of the last one, without anything in it") {
  TempDir state("dirs");
  RunDirs dirs(state.path());
  REQUIRE(dirs.Make(FenceOf(0)).ok());
  const RunDir first = dirs.Of(FenceOf(0));
  const ino_t inode = InodeOf(first.path);
  REQUIRE(RunDirs::Write(first.config(), R"({"x":1})").ok());
  REQUIRE(RunDirs::Write(first.body(), R"({"argv":["a"]})").ok());
  REQUIRE(RunDirs::Write(first.shim(), "shim 1 2 3\nended\n").ok());
  REQUIRE(RunDirs::Write(first.spool(), "{}\n").ok());
  REQUIRE(RunDirs::Write(first.error(), "{}").ok());
  REQUIRE(EnsureDirectory(first.trial() + "/deep/er").ok());
  REQUIRE(::chmod(first.trial().c_str(), 0500) == 0);
  REQUIRE(dirs.Retire(FenceOf(0)).ok());
  CHECK_FALSE(Exists(first.path));
  REQUIRE(dirs.Make(FenceOf(1)).ok());
  const RunDir second = dirs.Of(FenceOf(1));
  CHECK(InodeOf(second.path) == inode);
  CHECK(*ReadFile(second.shim()) == "\n");
  CHECK(*ReadFile(second.spool()) == "\n");
  CHECK_FALSE(Exists(second.error()));
  CHECK(fs::is_empty(second.trial()));
  struct stat info {};
  REQUIRE(::stat(second.trial().c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0700);
}

TEST_CASE("which barrier was passed last is kept with the logs, also without a log") {
  TempDir state("dirs");
  RunDirs dirs(state.path());
  REQUIRE(dirs.Make(FenceOf(0)).ok());
  REQUIRE(RunDirs::Write(dirs.Of(FenceOf(0)).barrier(), "12\n").ok());
  REQUIRE(dirs.Retire(FenceOf(0)).ok());
  CHECK(*ReadFile(RunDir{dirs.LogsOf(FenceOf(0))}.barrier()) == "12\n");
  CHECK(*ReadFile(RunDir{RunDirs(state.path()).LogsOf(FenceOf(0))}.barrier()) == "12\n");
  REQUIRE(dirs.Make(FenceOf(1)).ok());
  CHECK_FALSE(Exists(dirs.Of(FenceOf(1)).barrier()));
}

TEST_CASE("a shorter text leaves nothing of a longer one") {
  TempDir state("dirs");
  REQUIRE(RunDirs::Write(state.File("file"), "a longer text").ok());
  REQUIRE(RunDirs::Write(state.File("file"), "short").ok());
  CHECK(*ReadFile(state.File("file")) == "short");
}

TEST_CASE("what a program put in a file's place is removed, and what it points to is left alone") {
  TempDir state("dirs");
  RunDirs dirs(state.path());
  REQUIRE(EnsureDirectory(state.File("precious")).ok());
  REQUIRE(WriteFileAtomic(state.File("precious/data"), "kept").ok());
  REQUIRE(dirs.Make(FenceOf(0)).ok());
  const RunDir dir = dirs.Of(FenceOf(0));
  fs::remove_all(dir.trial());
  fs::create_directory_symlink(state.File("precious"), dir.trial());
  fs::create_symlink(state.File("precious/data"), dir.shim());
  REQUIRE(WriteFileAtomic(dir.body(), "shared by two names").ok());
  fs::create_hard_link(dir.body(), state.File("precious/body"));
  REQUIRE(dirs.Retire(FenceOf(0)).ok());
  REQUIRE(dirs.Make(FenceOf(1)).ok());
  CHECK_FALSE(fs::is_symlink(dirs.Of(FenceOf(1)).trial()));
  CHECK_FALSE(Exists(dirs.Of(FenceOf(1)).shim()));
  CHECK(*ReadFile(state.File("precious/data")) == "kept");
  CHECK(*ReadFile(state.File("precious/body")) == "shared by two names");
}

TEST_CASE("logs are kept where they can be found, and silence is no missing log") {
  TempDir state("dirs");
  RunDirs dirs(state.path());
  for (uint32_t number : {0u, 1u}) REQUIRE(dirs.Make(FenceOf(number)).ok());
  const std::string log = "/stdout.000000000000.log";
  REQUIRE(WriteFileAtomic(dirs.Of(FenceOf(0)).path + log, "said").ok());
  CHECK(dirs.LogsOf(FenceOf(0)) == dirs.Of(FenceOf(0)).path);
  for (uint32_t number : {0u, 1u}) REQUIRE(dirs.Retire(FenceOf(number)).ok());
  CHECK(*ReadFile(dirs.LogsOf(FenceOf(0)) + log) == "said");
  CHECK(dirs.LogsOf(FenceOf(0)) == state.path() + "/logs/" + rt::ToString(FenceOf(0)));
  REQUIRE_FALSE(dirs.LogsOf(FenceOf(1)).empty());
  CHECK_FALSE(Exists(dirs.LogsOf(FenceOf(1)) + log));
  CHECK(dirs.LogsOf(FenceOf(2)).empty());
  CHECK(RunDirs(state.path()).LogsOf(FenceOf(0)) == dirs.LogsOf(FenceOf(0)));
}

TEST_CASE("the next daemon knows which attempts printed nothing") {
  TempDir state("dirs");
  {
    RunDirs dirs(state.path());
    REQUIRE(dirs.Make(FenceOf(0)).ok());
    REQUIRE(dirs.Retire(FenceOf(0)).ok());
  }
  const RunDirs next(state.path());
  const std::string place = next.LogsOf(FenceOf(0));
  REQUIRE_FALSE(place.empty());
  CHECK_FALSE(Exists(place + "/stdout.000000000000.log"));
  CHECK(next.LogsOf(FenceOf(1)).empty());  // That one never ran here.
}

TEST_CASE("an attempt that was stopped before it was prepared printed nothing") {
  TempDir state("dirs");
  {
    RunDirs dirs(state.path());
    REQUIRE(dirs.Retire(FenceOf(0)).ok());
    CHECK_FALSE(dirs.LogsOf(FenceOf(0)).empty());
  }
  CHECK_FALSE(RunDirs(state.path()).LogsOf(FenceOf(0)).empty());
}

TEST_CASE("a directory that somebody removed is not taken for an attempt without output") {
  TempDir state("dirs");
  const bool by_next_daemon = GENERATE(false, true);
  auto dirs = std::make_unique<RunDirs>(state.path());
  REQUIRE(dirs->Make(FenceOf(0)).ok());
  if (by_next_daemon) dirs = std::make_unique<RunDirs>(state.path());
  REQUIRE(RemoveTree(dirs->Of(FenceOf(0)).path).ok());
  REQUIRE(dirs->Retire(FenceOf(0)).ok());
  CHECK(dirs->LogsOf(FenceOf(0)).empty());
}

TEST_CASE("the list of silent attempts stays bounded") {
  TempDir state("dirs");
  {
    RunDirs dirs(state.path());
    for (uint32_t number = 0; number < 2 * limits::kSilentAttemptsMax + 3; ++number) {
      REQUIRE(dirs.Make(FenceOf(number)).ok());
      REQUIRE(dirs.Retire(FenceOf(number)).ok());
    }
  }
  const RunDirs next(state.path());
  CHECK(next.LogsOf(FenceOf(0)).empty());
  CHECK_FALSE(next.LogsOf(FenceOf(2 * limits::kSilentAttemptsMax + 2)).empty());
  CHECK(ReadFile(state.File("silent"))->size() < 30 * limits::kSilentAttemptsMax);
}

}  // namespace
}  // namespace rt::worker
