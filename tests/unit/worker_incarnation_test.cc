#include <catch2/catch.hpp>
#include <filesystem>

#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "worker/launch/incarnation.h"

namespace rt::worker {

TEST_CASE("each daemon of a node has a greater incarnation, whatever happened to the file") {
  TempDir temp("incarnation");
  const std::string& dir = temp.path();
  const uint64_t first = *NextIncarnation(dir);
  const uint64_t second = *NextIncarnation(dir);
  CHECK(second > first);
  SECTION("the file is lost") { std::filesystem::remove(dir + "/incarnation"); }
  SECTION("the file is empty") { REQUIRE(WriteFileAtomic(dir + "/incarnation", "").ok()); }
  SECTION("the wall clock was set back by a long way") {
    REQUIRE(WriteFileAtomic(dir + "/incarnation", "9000000000000\n").ok());
    CHECK(*NextIncarnation(dir) == 9'000'000'000'001);
  }
  CHECK(*NextIncarnation(dir) >= second);
}

TEST_CASE("a daemon that was displaced takes a greater incarnation than the one it heard of") {
  TempDir temp("incarnation");
  const uint64_t first = *NextIncarnation(temp.path());
  const uint64_t displaced = first + 80'000'000;  // As far ahead of the clock as the head allows.
  CHECK(*NextIncarnation(temp.path(), displaced) == displaced + 1);
  CHECK(*NextIncarnation(temp.path()) == displaced + 2);
  CHECK(*NextIncarnation(temp.path(), first) == displaced + 3);
}

}  // namespace rt::worker
