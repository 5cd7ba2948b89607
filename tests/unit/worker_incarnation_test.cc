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

}  // namespace rt::worker
