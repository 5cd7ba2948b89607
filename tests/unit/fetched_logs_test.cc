// Logs that the head keeps of machines that are gone.
#include "head/service/fetched_logs.h"

#include <catch2/catch.hpp>

#include "common/base/limits.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"

namespace rt {
namespace {

Fence FenceOf(uint32_t trial) { return {{Owner::Of(TrialId{{1}, trial}), 1, 1}, 0}; }

TEST_CASE("fetched logs: what was kept is found, also by the next head") {
  const TempDir directory("fetched-logs");
  {
    FetchedLogs logs(directory.path() + "/logs");
    CHECK_FALSE(logs.IsDone(FenceOf(0)));
    CHECK_FALSE(logs.Find(FenceOf(0), "stdout").has_value());
    REQUIRE(logs.Keep(FenceOf(0), {{"stdout", {700, "the end\n"}}, {"stderr", {}}}).ok());
  }
  REQUIRE(EnsureDirectory(directory.path() + "/logs/t1-1.a1.r0.part").ok());
  FetchedLogs logs(directory.path() + "/logs");
  CHECK(logs.IsDone(FenceOf(0)));
  CHECK_FALSE(logs.IsDone(FenceOf(1)));  // A head died while it was kept.
  const auto found = logs.Find(FenceOf(0), "stdout");
  REQUIRE(found.has_value());
  CHECK(found->offset == 700);
  CHECK(found->bytes == "the end\n");
  REQUIRE(logs.Find(FenceOf(0), "stderr").has_value());
  CHECK(logs.Find(FenceOf(0), "stderr")->bytes.empty());
}

TEST_CASE("fetched logs: what the disk refused is not fetched again") {
  const TempDir directory("fetched-logs");
  const std::string path = directory.path() + "/logs";
  FetchedLogs logs(path);
  REQUIRE(WriteFileAtomic(path, "a file, where the directory would be", {.sync = false}).ok());
  CHECK_FALSE(logs.IsDone(FenceOf(0)));
  CHECK_FALSE(logs.Keep(FenceOf(0), {{"stdout", {0, "text"}}}).ok());
  CHECK(logs.IsDone(FenceOf(0)));
  CHECK_FALSE(logs.IsDone(FenceOf(1)));
  CHECK_FALSE(logs.Find(FenceOf(0), "stdout").has_value());
}

}  // namespace
}  // namespace rt
