#include <catch2/catch.hpp>

#include "common/base/limits.h"
#include "worker/core/worker_core.h"

namespace rt::worker {
namespace {

const Fence kOne{{Owner::Of(TrialId{{1}, 0}), 1, 1}, 0};
const Fence kTwo{{Owner::Of(TrialId{{1}, 1}), 1, 1}, 0};

input::Desired Wants(uint64_t epoch, std::vector<input::DesiredAttempt> attempts) {
  return {epoch, std::move(attempts)};
}
template <class T>
size_t Count(const std::vector<Action>& actions) {
  size_t count = 0;
  for (const Action& action : actions) count += std::holds_alternative<T>(action) ? 1 : 0;
  return count;
}
WorkerState Running() {
  WorkerState state;
  Step(state, Wants(1, {{kOne, false, true}}), 0);
  Step(state, input::Prepared{kOne}, 1);
  Step(state, input::Launched{kOne, 77}, 2);
  return state;
}
Stage StageOf(const WorkerState& state) { return state.attempts.at(kOne).stage; }

TEST_CASE("a desired attempt is prepared, launched and observed running") {
  WorkerState state;
  CHECK(Step(state, Wants(1, {{kOne, false, true}}), 0) ==
        std::vector<Action>{action::Prepare{kOne}});
  CHECK(Step(state, input::Prepared{kOne}, 1) == std::vector<Action>{action::Launch{kOne}});
  CHECK(Step(state, input::Launched{kOne, 77}, 2) == std::vector<Action>{action::SyncSoon{}});
  REQUIRE(ObservedList(state).size() == 1);
  CHECK(ObservedList(state)[0].phase == Observed::Phase::kRunning);
  CHECK(ObservedList(state)[0].pid == 77);
}

TEST_CASE("an attempt without a body is asked for again, not made") {
  WorkerState state;
  CHECK(Step(state, Wants(1, {{kOne, false, false}}), 0) ==
        std::vector<Action>{action::SyncSoon{}});
  CHECK(state.attempts.empty());
}

TEST_CASE("what is to be stopped before it was heard of is over, without a body") {
  WorkerState state;
  CHECK(Step(state, Wants(1, {{kOne, true, false}}), 0) ==
        std::vector<Action>{action::SyncNow{}});
  REQUIRE(ObservedList(state).size() == 1);
  CHECK(ObservedList(state)[0].phase == Observed::Phase::kExited);
  CHECK(Step(state, Wants(1, {}), 1) ==
        std::vector<Action>{action::Forget{kOne}, action::SyncSoon{}});
}

TEST_CASE("without a head for too long, what runs saves and ends, and is no success") {
  WorkerState state = Running();
  Step(state, Wants(1, {{kOne, false, false}, {kTwo, false, true}}), 3);
  const std::vector<Action> actions = Step(state, input::HeadAway{}, 10);
  CHECK(actions == std::vector<Action>{action::Suspend{kOne}});
  CHECK(Step(state, input::Saved{kOne}, 20) ==
        std::vector<Action>{action::Signal{kOne, false, true}});
  Step(state, input::Exited{kOne, {.exit_code = 0}}, 30);
  Step(state, input::Drained{kOne, 5, {}}, 31);
  CHECK(ObservedList(state)[0].orphaned);
  CHECK(ObservedList(state)[0].last_seq == 5);
  // What was still being prepared is never started.
  Step(state, input::Prepared{kTwo}, 40);
  CHECK(state.attempts.at(kTwo).stage == Stage::kExited);
  CHECK(ObservedList(state)[1].orphaned);
}

TEST_CASE("an attempt whose gpu has failed has a while to end by itself, and is killed after it") {
  WorkerState state = Running();
  CHECK(Step(state, input::GpuFailed{kOne}, 10).empty());
  Step(state, input::GpuFailed{kOne}, 5'000);  // Said again: it gets no more time.
  CHECK(Step(state, input::Tick{}, 9 + limits::kGpuFaultGrace).empty());
  CHECK(Step(state, input::Tick{}, 10 + limits::kGpuFaultGrace) ==
        std::vector<Action>{action::Signal{.fence = kOne, .kill = true, .suspended = false}});
  WorkerState ended = Running();
  Step(ended, input::Exited{kOne, {.exit_code = 1}}, 11);
  CHECK(Step(ended, input::GpuFailed{kOne}, 12).empty());
  CHECK(Step(ended, input::Tick{}, 12 + limits::kGpuFaultGrace).empty());
}

// A daemon after this one would take the end of a hung program for that of one that has saved.
TEST_CASE("an attempt that hangs ends as hung, whatever else it was asked") {
  WorkerState state = Running();
  Step(state, input::Hung{kOne, "it hangs"}, 10);
  CHECK(Step(state, input::HeadAway{}, 11).empty());
  CHECK(Step(state, input::Tick{}, 10 + limits::kDumpGrace) ==
        std::vector<Action>{action::Signal{.fence = kOne, .kill = true, .suspended = false}});
}

TEST_CASE("an attempt that ends before it was asked to keeps its outcome, without a head too") {
  WorkerState state = Running();
  Step(state, input::HeadAway{}, 10);
  Step(state, input::Exited{kOne, {.exit_code = 0}}, 11);
  Step(state, input::Drained{kOne, 5, {}}, 12);
  CHECK(!ObservedList(state)[0].orphaned);
}

// The program has ended itself, or waits to be ended: the head does not ask for it.
TEST_CASE("an attempt that was asked to end because no head answered is ended by the next daemon") {
  WorkerState state;
  Step(state, input::Recovered{.fence = kOne, .pid = 12, .orphaned = true}, 0);
  CHECK(Step(state, Wants(1, {{.fence = kOne}}), 1) ==
        std::vector<Action>{action::Suspend{kOne}});
  CHECK(Step(state, input::Tick{}, 1 + limits::kSuspendGrace) ==
        std::vector<Action>{action::Signal{kOne, false, true}});
  Step(state, input::Exited{kOne, {.signal = 15}}, 2 + limits::kSuspendGrace);
  Step(state, input::Drained{kOne, 5, {}}, 3 + limits::kSuspendGrace);
  CHECK(ObservedList(state)[0].orphaned);
}

TEST_CASE("what begins with a broken checkpoint is not started, and says why") {
  WorkerState state;
  Step(state, Wants(1, {{kOne, false, true}}), 0);
  Step(state, input::Prepared{kOne, false, false, "the checkpoint is broken", 0, true}, 1);
  REQUIRE(ObservedList(state).size() == 1);
  CHECK(ObservedList(state)[0].launch_failed);
  CHECK(ObservedList(state)[0].broken_checkpoint);
  CHECK(ObservedList(state)[0].reason == "the checkpoint is broken");
}

TEST_CASE("the reply of an older epoch is ignored") {
  WorkerState state = Running();
  Step(state, Wants(5, {{kOne, false, false}}), 3);
  CHECK(Step(state, Wants(4, {}), 4).empty());
  CHECK(state.attempts.at(kOne).wanted);
}

TEST_CASE("an absent attempt gets SIGTERM, after the grace SIGKILL, and is forgotten at its end") {
  WorkerState state = Running();
  CHECK(Step(state, Wants(1, {}), 10) == std::vector<Action>{action::Signal{kOne, false}});
  CHECK(Step(state, input::Tick{}, 9 + limits::kStopGrace).empty());
  CHECK(Step(state, input::Tick{}, 10 + limits::kStopGrace) ==
        std::vector<Action>{action::Signal{kOne, true}});
  CHECK(Step(state, input::Tick{}, 11 + limits::kStopGrace).empty());
  CHECK(Step(state, input::Exited{kOne, {.signal = 9}}, 6000) ==
        std::vector<Action>{action::Forget{kOne}, action::SyncSoon{}});
  CHECK(state.attempts.empty());
}

TEST_CASE("an exit is observed only once it is drained, and until the head lets go") {
  WorkerState state = Running();
  CHECK(Step(state, input::Exited{kOne, {.exit_code = 3}}, 5).empty());
  CHECK(ObservedList(state)[0].phase == Observed::Phase::kRunning);
  CHECK(Step(state, input::Drained{kOne, 9, {.message = "boom"}}, 6) ==
        std::vector<Action>{action::SyncNow{}});
  Observed seen = ObservedList(state)[0];
  CHECK(seen.phase == Observed::Phase::kExited);
  CHECK(seen.exit_code == 3);
  CHECK(seen.last_seq == 9);
  CHECK(seen.error.message == "boom");
  CHECK(Step(state, Wants(1, {{kOne, true, false}}), 7).empty());
  CHECK(StageOf(state) == Stage::kExited);
  CHECK(Count<action::Forget>(Step(state, Wants(1, {}), 8)) == 1);
}

TEST_CASE("stop before the launch means it never starts") {
  WorkerState state;
  Step(state, Wants(1, {{kOne, false, true}}), 0);
  Step(state, Wants(1, {{kOne, true, false}}), 1);
  auto actions = Step(state, input::Prepared{kOne}, 2);
  CHECK(Count<action::Launch>(actions) == 0);
  CHECK(StageOf(state) == Stage::kExited);
  CHECK_FALSE(ObservedList(state)[0].launch_failed);
}

TEST_CASE("an attempt that is new and already stopped is not prepared") {
  WorkerState state;
  CHECK(Count<action::Prepare>(Step(state, Wants(1, {{kOne, true, true}}), 0)) == 0);
  CHECK(StageOf(state) == Stage::kExited);
}

TEST_CASE("a stop during the launch is signalled as soon as it runs") {
  WorkerState state;
  Step(state, Wants(1, {{kOne, false, true}}), 0);
  Step(state, input::Prepared{kOne}, 1);
  CHECK(Count<action::Signal>(Step(state, Wants(1, {}), 2)) == 0);
  CHECK(Count<action::Signal>(Step(state, input::Launched{kOne, 5}, 3)) == 1);
}

TEST_CASE("a transient failure is tried again after a pause, a final one is an exit") {
  WorkerState state;
  Step(state, Wants(1, {{kOne, false, true}}), 0);
  CHECK(Step(state, input::Prepared{kOne, false, true, "away"}, 100).empty());
  CHECK(Step(state, input::Tick{}, 149).empty());
  CHECK(Count<action::Prepare>(Step(state, input::Tick{}, 150)) == 1);
  Step(state, input::Prepared{kOne, false, false, "no such bundle"}, 151);
  Observed seen = ObservedList(state)[0];
  CHECK(seen.launch_failed);
  CHECK(seen.reason == "no such bundle");
}

TEST_CASE("an attempt that was evicted is ended by the next daemon, also after a false alarm") {
  WorkerState state;
  Step(state, input::Recovered{.fence = kOne, .pid = 12, .evicting = true}, 0);
  CHECK(Step(state, Wants(1, {{.fence = kOne}}), 1) ==
        std::vector<Action>{action::Signal{kOne, false, true}});
  CHECK(Step(state, input::Tick{}, 1 + limits::kStopGrace) ==
        std::vector<Action>{action::Signal{kOne, true, true}});
}

TEST_CASE("recovered attempts are listed, and go on where they were") {
  WorkerState state;
  Step(state, input::Recovered{kOne, 12, std::nullopt}, 0);
  Step(state, input::Recovered{kTwo, 13, ExitFacts{.exit_code = 1, .witnessed = false}}, 0);
  CHECK(ObservedList(state).size() == 2);
  Step(state, input::Drained{kTwo, 4, {}}, 1);
  CHECK_FALSE(ObservedList(state)[1].witnessed);
  auto actions = Step(state, Wants(1, {{kOne, false, false}}), 2);
  CHECK(actions == std::vector<Action>{action::Forget{kTwo}, action::SyncSoon{}});
}

const Fence kThree{{Owner::Of(TrialId{{1}, 2}), 1}, 0};

input::DesiredAttempt StartingAfter(const Fence& fence, const Fence& before) {
  return {.fence = fence, .has_body = true, .start_after = before};
}

TEST_CASE("a backfilled attempt is prepared, and started when the one before it has ended") {
  WorkerState state = Running();
  const input::DesiredAttempt first{.fence = kOne};
  CHECK(Step(state, Wants(1, {first, StartingAfter(kTwo, kOne), StartingAfter(kThree, kTwo)}), 3) ==
        std::vector<Action>{action::Prepare{kTwo}, action::Prepare{kThree}});
  CHECK(Step(state, input::Prepared{kTwo}, 4).empty());
  CHECK(Step(state, input::Prepared{kThree}, 5).empty());
  CHECK(Step(state, input::Exited{kOne, {.exit_code = 0}}, 6) ==
        std::vector<Action>{action::Launch{kTwo}});
  // It is over before the head has said so: the next one need not wait for that.
  Step(state, input::Launched{kTwo, 13}, 7);
  CHECK(Step(state, input::Exited{kTwo, {.exit_code = 0}}, 8) ==
        std::vector<Action>{action::Launch{kThree}});
}

TEST_CASE("a backfill behind an attempt that never ran waits for the attempts before that one") {
  WorkerState state = Running();
  const input::DesiredAttempt first{.fence = kOne};
  Step(state, Wants(1, {first, StartingAfter(kTwo, kOne), StartingAfter(kThree, kTwo)}), 3);
  Step(state, input::Prepared{kThree}, 4);
  CHECK(Count<action::Launch>(Step(state, input::Prepared{kTwo, false, false, "no"}, 5)) == 0);
  CHECK(Count<action::Launch>(Step(state, input::Tick{}, 6)) == 0);
  CHECK(Count<action::Launch>(Step(state, input::Exited{kOne, {}}, 7)) == 1);
}

TEST_CASE("an attempt whose end was not reported does not start beside its successor") {
  WorkerState state;  // Of the daemon after the one that knew.
  Step(state, input::Recovered{kThree, 12, std::nullopt}, 0);
  const input::DesiredAttempt first{.fence = kOne, .has_body = true};
  Step(state, Wants(1, {first, StartingAfter(kTwo, kOne), StartingAfter(kThree, kTwo)}), 1);
  CHECK(Step(state, input::Prepared{kOne}, 2).empty());
  CHECK(Step(state, input::Tick{}, 3).empty());
  CHECK(Step(state, input::Exited{kThree, {.exit_code = 0}}, 4) ==
        std::vector<Action>{action::Launch{kOne}});
}

TEST_CASE("nothing is started while what the head has given up still runs") {
  WorkerState state = Running();
  Step(state, Wants(1, {{kTwo, false, true}}), 3);
  CHECK(Step(state, input::Prepared{kTwo}, 4).empty());
  CHECK(state.attempts.at(kTwo).stage == Stage::kWaiting);
  const auto actions = Step(state, input::Exited{kOne, {.signal = 15}}, 5);
  CHECK(Count<action::Launch>(actions) == 1);
}

input::DesiredAttempt Evicting(Millis by = 0) {
  return {.fence = kOne, .has_body = true, .evict = true, .evict_by = by};
}

TEST_CASE("an evicted attempt is notified once, and ended only once it has saved") {
  WorkerState state = Running();
  CHECK(Step(state, Wants(1, {Evicting(9'000)}), 10) ==
        std::vector<Action>{action::Announce{kOne, 9'000}});
  CHECK(Step(state, Wants(1, {Evicting(9'100)}), 11).empty());
  CHECK(Step(state, input::Tick{}, 10 + 10 * limits::kSuspendGrace).empty());
  CHECK(Step(state, input::Saved{kOne}, 400'000) ==
        std::vector<Action>{action::Signal{kOne, false, true}});
  Step(state, input::Exited{kOne, {.signal = 15}}, 400'001);
  Step(state, input::Drained{kOne, 3, {}}, 400'002);
  CHECK(ObservedList(state)[0].suspended);
}

TEST_CASE("a new deadline is announced again; an earlier checkpoint does not end the attempt") {
  WorkerState state = Running();
  Step(state, input::Saved{kOne}, 3);
  CHECK(Step(state, Wants(1, {Evicting()}), 10) == std::vector<Action>{action::Announce{kOne, 0}});
  CHECK(Step(state, Wants(1, {Evicting(60'000)}), 11) ==
        std::vector<Action>{action::Announce{kOne, 60'000}});
  CHECK(Step(state, input::Tick{}, 12).empty());
}

TEST_CASE("a false alarm is announced; an attempt that has saved already ends all the same") {
  WorkerState state = Running();
  Step(state, Wants(1, {Evicting()}), 10);
  CHECK(Step(state, Wants(1, {{kOne, false, true}}), 11) ==
        std::vector<Action>{action::Recall{kOne}});
  CHECK(Step(state, input::Saved{kOne}, 12).empty());
  Step(state, Wants(1, {Evicting()}), 13);
  Step(state, input::Saved{kOne}, 14);
  CHECK(Step(state, Wants(1, {{kOne, false, true}}), 15).empty());
  CHECK(Step(state, input::Tick{}, 14 + limits::kStopGrace) ==
        std::vector<Action>{action::Signal{kOne, true, true}});
}

TEST_CASE("what has not started when its node is to go never does") {
  WorkerState state;
  Step(state, Wants(1, {{kOne, false, true}}), 0);
  Step(state, Wants(1, {Evicting()}), 1);
  CHECK(Count<action::Launch>(Step(state, input::Prepared{kOne}, 2)) == 0);
  CHECK(ObservedList(state)[0].suspended);
}

}  // namespace
input::DesiredAttempt Freezing(uint32_t round) {
  return {.fence = kOne, .has_body = true, .freeze = round};
}
WorkerState Frozen() {
  WorkerState state = Running();
  Step(state, Wants(1, {Freezing(1)}), 10);
  Step(state, input::Saved{kOne}, 20);
  Step(state, input::Frozen{kOne, 1, ""}, 30);
  return state;
}

TEST_CASE("an attempt is asked to save, then frozen, and continues when it is wanted to run") {
  WorkerState state = Running();
  CHECK(Step(state, Wants(1, {Freezing(1)}), 10) == std::vector<Action>{action::Save{kOne}});
  CHECK(Step(state, input::Tick{}, 11).empty());
  CHECK(Step(state, input::Saved{kOne}, 20) == std::vector<Action>{action::Freeze{kOne, 1}});
  CHECK(ObservedList(state)[0].frozen == 0);
  CHECK(Step(state, input::Frozen{kOne, 1, ""}, 30) == std::vector<Action>{action::SyncNow{}});
  CHECK(ObservedList(state)[0].frozen == 1);
  CHECK(ObservedList(state)[0].phase == Observed::Phase::kRunning);
  CHECK(Step(state, input::HeadAway{}, 31).empty());
  CHECK(Step(state, Wants(1, {{kOne, false, true}}), 40) ==
        std::vector<Action>{action::Thaw{kOne}});
  CHECK(Step(state, input::Thawed{kOne, "", false}, 50) == std::vector<Action>{action::SyncSoon{}});
  CHECK(ObservedList(state)[0].frozen == 0);
}

TEST_CASE("an attempt that does not save is frozen after the grace, and not before") {
  WorkerState state = Running();
  Step(state, Wants(1, {Freezing(1)}), 10);
  CHECK(Step(state, input::Tick{}, 10 + limits::kSuspendGrace - 1).empty());
  CHECK(Step(state, input::Tick{}, 10 + limits::kSuspendGrace) ==
        std::vector<Action>{action::Freeze{kOne, 1}});
}

TEST_CASE("what cannot be frozen runs on, says why, and is not tried again in that round") {
  WorkerState state = Running();
  Step(state, Wants(1, {Freezing(1)}), 10);
  Step(state, input::Saved{kOne}, 20);
  Step(state, input::Frozen{kOne, 1, "no driver"}, 30);
  CHECK(Step(state, Wants(1, {Freezing(1)}), 31).empty());
  CHECK(ObservedList(state)[0].frozen == 0);
  CHECK(ObservedList(state)[0].freeze_refused == 1);
  CHECK(ObservedList(state)[0].freeze_why == "no driver");
  // The head lets it save and end instead.
  CHECK(Step(state, Wants(1, {{.fence = kOne, .has_body = true, .suspend = true}}), 40) ==
        std::vector<Action>{action::Suspend{kOne}});
}

TEST_CASE("a frozen attempt is ended by SIGKILL alone") {
  WorkerState state = Frozen();
  const std::vector<Action> stopped = Step(state, Wants(1, {{kOne, true, true}}), 40);
  CHECK(stopped == std::vector<Action>{action::Signal{kOne, true}});
  WorkerState unwanted = Frozen();
  CHECK(Step(unwanted, Wants(1, {}), 40) == std::vector<Action>{action::Signal{kOne, true}});
}

TEST_CASE("a frozen attempt that dies is lost, whatever its daemon saw") {
  WorkerState state = Frozen();
  Step(state, input::Exited{kOne, {.signal = 9}}, 40);
  Step(state, input::Drained{kOne, 3, {}}, 41);
  CHECK(ObservedList(state)[0].phase == Observed::Phase::kExited);
  CHECK_FALSE(ObservedList(state)[0].witnessed);
  CHECK(ObservedList(state)[0].reason == "its process was killed while it was frozen");
}

TEST_CASE("what can neither run nor be frozen is ended, and lost") {
  WorkerState state = Frozen();
  Step(state, Wants(1, {{kOne, false, true}}), 40);
  CHECK(Step(state, input::Thawed{kOne, "", true}, 50).empty());  // Too busy.
  CHECK(Step(state, input::Tick{}, 51) == std::vector<Action>{action::Thaw{kOne}});
  CHECK(Step(state, input::Thawed{kOne, "the gpu is gone", false}, 60) ==
        std::vector<Action>{action::Signal{kOne, true}});
  Step(state, input::Exited{kOne, {.signal = 9}}, 70);
  Step(state, input::Drained{kOne, 3, {}}, 71);
  CHECK_FALSE(ObservedList(state)[0].witnessed);
  CHECK(ObservedList(state)[0].reason == "the gpu is gone");
}

TEST_CASE("a frozen attempt does not continue while what the head has given up still runs") {
  WorkerState state = Frozen();
  Step(state, Wants(1, {Freezing(1), {kTwo, false, true}}), 40);
  Step(state, input::Prepared{kTwo}, 41);
  Step(state, input::Launched{kTwo, 78}, 42);
  CHECK(Count<action::Thaw>(Step(state, Wants(1, {{kOne, false, true}}), 50)) == 0);
  CHECK(Count<action::Thaw>(Step(state, input::Tick{}, 51)) == 0);
  CHECK(Count<action::Thaw>(Step(state, input::Exited{kTwo, {.signal = 15}}, 52)) == 1);
}

TEST_CASE("an attempt that was to be thawed and frozen again says the round that holds") {
  WorkerState state = Frozen();
  CHECK(Step(state, Wants(1, {Freezing(2)}), 40) == std::vector<Action>{action::Freeze{kOne, 2}});
  CHECK(ObservedList(state)[0].frozen == 1);
  Step(state, input::Frozen{kOne, 2, ""}, 50);
  CHECK(ObservedList(state)[0].frozen == 2);
}

TEST_CASE("an attempt that is frozen stays so while a later round cannot be noted") {
  WorkerState state = Frozen();
  Step(state, Wants(1, {Freezing(2)}), 40);
  CHECK(Step(state, input::Frozen{kOne, 2, "too many at once"}, 50).empty());
  CHECK(Step(state, input::Tick{}, 51) == std::vector<Action>{action::Freeze{kOne, 2}});
  CHECK(ObservedList(state)[0].frozen == 1);
  CHECK(ObservedList(state)[0].freeze_refused == 0);
  Step(state, input::Frozen{kOne, 2, ""}, 60);
  CHECK(ObservedList(state)[0].frozen == 2);
}

TEST_CASE("a daemon that starts finishes what the one before it had begun") {
  const auto recover = [](WorkerState& state, FreezeStep step) {
    return Step(state,
                input::Recovered{.fence = kOne, .pid = 77, .freeze_step = step, .freeze_round = 3},
                0);
  };
  WorkerState frozen;
  CHECK(recover(frozen, FreezeStep::kFrozen).empty());
  CHECK(ObservedList(frozen)[0].frozen == 3);
  CHECK(Step(frozen, input::Tick{}, 1).empty());
  WorkerState freezing;
  CHECK(recover(freezing, FreezeStep::kFreezing) == std::vector<Action>{action::Freeze{kOne, 3}});
  CHECK(ObservedList(freezing)[0].frozen == 0);
  WorkerState thawing;
  CHECK(recover(thawing, FreezeStep::kThawing) == std::vector<Action>{action::Thaw{kOne}});
}

}  // namespace rt::worker
