// What a worker looks at when a program hangs or has failed.
#include <catch2/catch.hpp>

#include "common/base/limits.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "worker/core/worker_core.h"
#include "worker/session/log_patterns.h"
#include "worker/session/report_intervals.h"

namespace rt::worker {
namespace {

const Fence kOne{{Owner::Of(TrialId{{1}, 0}), 1, 1}, 0};

TEST_CASE("a trial may be silent for a factor of its median interval, and never less than min") {
  ReportIntervals intervals;
  for (Millis at : {1'000, 1'100}) intervals.Note(at);
  CHECK_FALSE(intervals.Allowed(10, 1).has_value());  // One interval says nothing yet.
  intervals.Note(1'200);
  CHECK(intervals.Allowed(10, 1) == 1'000);
  CHECK(intervals.Allowed(10, 5'000) == 5'000);
  intervals.Note(9'000);  // One long step moves the median little.
  CHECK(intervals.Allowed(10, 1) == 1'000);
  CHECK(intervals.Silence(9'500) == 500);
  intervals.Excuse(9'400);
  CHECK(intervals.Silence(9'500) == 100);
  ReportIntervals taken_over;
  taken_over.Assume(300, 50);
  CHECK(taken_over.Allowed(3, 1) == 900);
  CHECK(taken_over.Silence(60) == 10);
}

TEST_CASE("a program that hangs is asked for its stacks, then killed, and said to have hung") {
  WorkerState state;
  Step(state, input::Desired{1, {{kOne, false, true}}}, 0);
  Step(state, input::Prepared{kOne}, 1);
  Step(state, input::Launched{kOne, 77}, 2);
  CHECK(Step(state, input::Hung{kOne, "it hangs"}, 100) ==
        std::vector<Action>{action::Dump{kOne}});
  CHECK(Step(state, input::Hung{kOne, "it hangs"}, 200).empty());
  CHECK(Step(state, input::Tick{}, 100 + limits::kDumpGrace - 1).empty());
  CHECK(Step(state, input::Tick{}, 100 + limits::kDumpGrace) ==
        std::vector<Action>{action::Signal{kOne, true}});
  CHECK(Step(state, input::Tick{}, 200 + limits::kDumpGrace).empty());
  Step(state, input::Exited{kOne, {.signal = 9}}, 2'000);
  Step(state, input::Drained{kOne, 3, {}}, 2'001);
  REQUIRE(ObservedList(state).size() == 1);
  CHECK(ObservedList(state)[0].hung);
  CHECK(ObservedList(state)[0].reason == "it hangs");
}

TEST_CASE("a program that returns after all has not hung") {
  WorkerState state;
  Step(state, input::Desired{1, {{kOne, false, true}}}, 0);
  Step(state, input::Prepared{kOne}, 1);
  Step(state, input::Launched{kOne, 77}, 2);
  Step(state, input::Hung{kOne, "it hangs"}, 100);
  Step(state, input::Exited{kOne, {.exit_code = 0}}, 150);
  Step(state, input::Drained{kOne, 3, {}}, 151);
  CHECK_FALSE(ObservedList(state)[0].hung);
}

TEST_CASE("patterns are found in a line of the last 64 KiB of either stream") {
  TempDir dir("watchdog");
  const std::string old = "CUDA error: old\n" + std::string(70'000, 'x') + "\n";
  REQUIRE(WriteFileAtomic(dir.File("stderr.000000000000.log"), old + "NCCL failed\n", {}).ok());
  REQUIRE(WriteFileAtomic(dir.File("stdout.000000000000.log"), "disk full\n", {}).ok());
  CHECK(FindPatterns(dir.path(), {"CUDA error", "NCCL.*failed", "^disk", "failed\\ndisk"}) ==
        std::vector<uint32_t>{1, 2});
  CHECK(FindPatterns(dir.path(), {}).empty());
}

}  // namespace
}  // namespace rt::worker
