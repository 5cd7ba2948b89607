// The watchdog of the worker's loop, and what it hands on to the next daemon.
#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>

#include "tests/patience.h"
#include "worker/core/worker_core.h"
#include "worker/loop/loop_activity.h"
#include "worker/loop/loop_watch.h"

namespace rt::worker {
namespace {

const Fence kWatched{{Owner::Of(TrialId{{3}, 1}), 2, 1}, 0};

TEST_CASE("a loop that moves has not stalled, however late anybody looks") {
  StallMeter meter(100);
  CHECK(meter.Look(1, {}, 1'000) == 0);
  CHECK(meter.Look(1, {}, 1'100) == 100);
  CHECK(meter.Look(1, {}, 1'200) == 200);
  CHECK(meter.Look(2, {}, 1'300) == 0);
  CHECK(meter.Look(2, {}, 1'400) == 100);
}

TEST_CASE("time in which the watchdog did not run either is no stall") {
  StallMeter meter(100);
  meter.Look(1, {}, 1'000);
  CHECK(meter.Look(1, {}, 3'600'000) == 200);  // The machine slept, or the process was stopped.
  CHECK(meter.Look(1, {}, 3'600'100) == 300);
}

TEST_CASE("time in which the loop's thread could not run is no stall") {
  StallMeter meter(100);
  meter.Look(1, {}, 1'000);
  CHECK(meter.Look(1, {.is_held = true}, 1'100) == 0);  // It waited for the disk.
  CHECK(meter.Look(1, {.waited = 70}, 1'200) == 30);    // The machine is busy.
  CHECK(meter.Look(1, {.waited = 190}, 1'300) == 30);
  CHECK(meter.Look(1, {.waited = 190}, 1'400) == 130);
  CHECK(meter.Look(1, {.waited = 0}, 1'500) == 230);  // Another thread took the loop over.
}

TEST_CASE("the loop is busy with the attempt that it named last") {
  LoopActivity activity;
  activity.NextRound(7);
  CHECK(activity.part() == ActivityKind::kNone);
  {
    const LoopActivity::Scope end(activity, kWatched, ActivityKind::kEnd);
    CHECK(activity.fence() == kWatched);
    CHECK(activity.part() == ActivityKind::kEnd);
    const uint64_t moves = activity.moves();
    { const LoopActivity::Scope output(activity, {}, ActivityKind::kOutput); }
    CHECK(activity.moves() > moves);
    CHECK(activity.part() == ActivityKind::kEnd);
    CHECK(activity.fence() == kWatched);
  }
  CHECK(activity.part() == ActivityKind::kNone);
  CHECK(activity.thread() == 7);
}

TEST_CASE("what a daemon hung in reaches the next one") {
  const HungActivity hung{kWatched, ActivityKind::kOutput, 30'000};
  CHECK(ToString(hung) == "t3-1.a2.r0 output 30000");
  const auto read = ParseHungActivity(ToString(hung));
  REQUIRE(read.has_value());
  CHECK(read->fence == kWatched);
  CHECK(read->part == ActivityKind::kOutput);
  CHECK(read->Reason() ==
        "the worker's loop hung for 30 s while it handled this attempt (output); the daemon was "
        "restarted");
  const auto nobody = ParseHungActivity(ToString(HungActivity{.span = 5}));
  REQUIRE(nobody.has_value());
  CHECK(nobody->part == ActivityKind::kNone);
  for (const char* text : {"", "t3-1.a2.r0 output", "t3 output 1", "t3-1.a2.r0 none 1"})
    CHECK_FALSE(ParseHungActivity(text).has_value());
}

TEST_CASE("a loop that does not move is reported as a fault, and then as hung") {
  LoopActivity activity;
  activity.NextRound(0);
  const LoopActivity::Scope busy(activity, kWatched, ActivityKind::kStart);
  std::mutex mutex;
  std::condition_variable changed;
  std::string fault;
  std::optional<HungActivity> hung;
  LoopWatch watch(activity, 200,
                  {[&](const std::string& why) {
                     std::lock_guard lock(mutex);
                     fault = why;
                   },
                   [&](const HungActivity& one) {
                     std::lock_guard lock(mutex);
                     hung = one;
                     changed.notify_all();
                   }});
  std::unique_lock lock(mutex);
  REQUIRE(changed.wait_for(lock, kPatience, [&] { return hung.has_value(); }));
  CHECK(hung->fence == kWatched);
  CHECK(hung->span >= 200);
  CHECK(fault == "the loop of its worker does not move: it handles t3-1.a2.r0 (start)");
  lock.unlock();
  watch.Stop();
}

TEST_CASE("an attempt whose daemon hung in it ends, and is not started again") {
  WorkerState state;
  Step(state, input::Recovered{.fence = kWatched, .exit = ExitFacts{.signal = 9, .reason = "hung"}},
       1);
  Step(state, input::Drained{kWatched, 4, {}}, 1);
  CHECK(Step(state, input::Desired{1, {{kWatched, false, true}}}, 2).empty());
  REQUIRE(ObservedList(state).size() == 1);
  const Observed seen = ObservedList(state)[0];
  CHECK(seen.phase == Observed::Phase::kExited);
  CHECK(seen.witnessed);
  CHECK(seen.reason == "hung");
  CHECK(seen.last_seq == 4);
  const std::vector<Action> forgotten = Step(state, input::Desired{1, {}}, 3);
  CHECK(std::count(forgotten.begin(), forgotten.end(), Action{action::Forget{kWatched}}) == 1);
}

}  // namespace
}  // namespace rt::worker
