// Executors and their sessions, as the core decides about them.
#include "common/base/limits_executors.h"
#include "head/core/executor_index.h"
#include "tests/unit/core_story.h"

namespace rt {
namespace {

const SessionKey kOutside{{}, "ann", "s"};

input::RequestExecutors AsksFor(int64_t count, const std::string& key,
                                const std::string& more = "") {
  return {"ann", "s", {}, key, count, R"({"name":"x","argv":["p"])" + more + "}"};
}
input::ReleaseExecutors ReleasesAll() {
  return {.owner = "ann",
          .session = "s",
          .opener = {},
          .executors = {},
          .all = true,
          .reason = "enough"};
}
Fence FenceOfExecutor(uint64_t id, uint32_t attempt = 1) {
  return {{Owner::Of(ExecutorId{id}), attempt, 1}, 0};
}
std::string StateOfExecutor(const Story& story, uint64_t id) {
  return ExecutorStateName(story.core, story.core.world.state.executors.at({id}));
}

}  // namespace

TEST_CASE("executors: a key belongs to its session, and is answered once") {
  Story story;
  const Outcome first = story.Do(AsksFor(2, "k"));
  REQUIRE(first.answer.executors.size() == 2);
  const Outcome again = story.Do(AsksFor(2, "k"));
  CHECK(again.answer.executors == first.answer.executors);
  CHECK(again.records.empty());
  CHECK(absl::IsAlreadyExists(story.Do(AsksFor(3, "k")).verdict));
  input::RequestExecutors other = AsksFor(2, "k");
  other.owner = "bob";
  CHECK(story.Do(other).answer.executors != first.answer.executors);
  CHECK(story.Do(AsksFor(1, "")).answer.executors != story.Do(AsksFor(1, "")).answer.executors);
}

TEST_CASE("executors: what cannot be granted is refused, and changes nothing") {
  Story story;
  auto refused = [&](input::RequestExecutors request) {
    const Outcome outcome = story.Do(request);
    CHECK(outcome.records.empty());
    return outcome.verdict.code();
  };
  using absl::StatusCode;
  CHECK(refused(AsksFor(0, "a")) == StatusCode::kInvalidArgument);
  CHECK(refused(AsksFor(limits::kExecutorsPerRequest + 1, "a")) == StatusCode::kInvalidArgument);
  CHECK(refused(AsksFor(1, "a", R"(,"params":3)")) == StatusCode::kInvalidArgument);
  for (const char* name : {"", "A", "a b", "a/b"}) {
    input::RequestExecutors request = AsksFor(1, "a");
    request.session = name;
    CHECK(refused(request) == StatusCode::kInvalidArgument);
  }
  input::RequestExecutors stale = AsksFor(1, "a");
  stale.opener = {Owner::Of(JobId{9}), 1, 1};
  CHECK(refused(stale) == StatusCode::kFailedPrecondition);
  CHECK(story.core.soft.sessions.empty());
  const std::string actor = R"(,"detached":true,"actor":{"name":"a"})";
  CHECK(refused(AsksFor(2, "b", actor)) == StatusCode::kInvalidArgument);
  REQUIRE(story.Do(AsksFor(1, "c", actor)).verdict.ok());
  CHECK(refused(AsksFor(1, "d", actor)) == StatusCode::kAlreadyExists);
}

TEST_CASE("executors: a session has so many at most") {
  Story story;
  const int64_t each = limits::kExecutorsPerRequest;
  for (size_t asked = 0; asked < limits::kExecutorsPerSession; asked += each)
    Step(story.core, AsksFor(each, ""), story.now);
  CHECK(absl::IsResourceExhausted(Step(story.core, AsksFor(1, ""), story.now).verdict));
  CheckInvariants(story.core);
}

TEST_CASE("executors: of those that have ended the newest are kept") {
  Story story;
  const auto kept = static_cast<int64_t>(limits::kEndedExecutorsKept);
  REQUIRE(story.Do(AsksFor(kept, "k1")).verdict.ok());
  REQUIRE(story.Do(AsksFor(5, "k2")).verdict.ok());
  story.Do(ReleasesAll());
  // Some of them had been started: their daemon says that they ended.
  story.SyncTwice();
  for (auto& [fence, observed] : story.running) observed.phase = Observed::Phase::kExited;
  story.Sync();
  std::erase_if(story.running, [&](const auto& one) {
    return FindLive(story.core.world.state, one.first.attempt) == nullptr;
  });
  CHECK(story.running.empty());
  story.Sync();
  const State& state = story.core.world.state;
  CHECK(state.executors.size() == limits::kEndedExecutorsKept);
  CHECK(story.core.world.index.executors.open == 0);
  for (const auto& [id, executor] : state.executors) CHECK(executor.normal_spec.empty());
  World restarted;
  restarted.state = state;
  Reindex(restarted);
  const SessionIndex& before = *FindSession(story.core.world, kOutside);
  const SessionIndex& after = *FindSession(restarted, kOutside);
  CHECK(after.executors == before.executors);
  CHECK(after.by_key == before.by_key);
  CHECK(restarted.index.executors.ended == story.core.world.index.executors.ended);
}

TEST_CASE("executors: a driver is told of those that changed, or of all when some are forgotten") {
  Story story;
  const HeadFacts facts{.now = story.now};
  const auto changes = [&](uint64_t after) {
    const auto list = SessionChanges(story.core, facts, kOutside, after);
    if (!list) return std::string("all");
    std::string text;
    for (const Json& one : list->array())
      text += std::to_string(one.GetInt("id")) + " " + one.GetString("state") + " ";
    return text;
  };
  const auto newest = [&] { return FindSession(story.core.world, kOutside)->changed_seq; };
  CHECK(changes(0) == "all");  // There is no session.
  REQUIRE(story.Do(AsksFor(3, "k", R"(,"resources":{"cpu":0})")).verdict.ok());
  story.SyncTwice();
  const uint64_t running = newest();
  CHECK(changes(0) == "all");
  CHECK(changes(running).empty());
  story.Exit(FenceOfExecutor(2), 0, 0);
  CHECK(changes(running) == "2 ENDED ");
  CHECK(changes(newest()).empty());
  const uint64_t seen = newest();
  input::RequestExecutors other =
      AsksFor(static_cast<int64_t>(limits::kEndedExecutorsKept), "k2", R"(,"resources":{"cpu":9})");
  other.session = "other";
  REQUIRE(story.Do(other).verdict.ok());
  input::ReleaseExecutors release = ReleasesAll();
  release.session = "other";
  story.Do(release);
  CHECK(!story.core.world.state.executors.contains(ExecutorId{2}));
  CHECK(changes(running) == "all");  // It ended and was forgotten.
  CHECK(changes(seen).empty());      // Its end has been told.
  CheckInvariants(story.core);
}

TEST_CASE("executors: a restarted head knows the open ones, what they ask for, and their names") {
  Story story;
  REQUIRE(story.Do(AsksFor(2, "k", R"(,"resources":{"cpu":2})")).verdict.ok());
  REQUIRE(story.Do(AsksFor(1, "a", R"(,"detached":true,"actor":{"name":"a"})")).verdict.ok());
  World restarted;
  restarted.state = story.core.world.state;
  Reindex(restarted);
  CHECK(CanonicalDump(restarted.state) == CanonicalDump(story.core.world.state));
  const ExecutorIndex& before = story.core.world.index.executors;
  CHECK(restarted.index.executors.actors == before.actors);
  CHECK(restarted.index.executors.open == before.open);
  CHECK(restarted.index.ready_order.size() == story.core.world.index.ready_order.size());
  CHECK(restarted.index.nodes.at(story.node).used.cpu == 2 * kUnit);
  CHECK(FindSession(restarted, kOutside)->open_detached == 1);
}

TEST_CASE("executors: what a process is requested with is for it alone") {
  Story story;
  REQUIRE(story.Do(AsksFor(1, "k", R"(,"params":{"token":"s3cret"},"env":{"E":"s3cret"})"))
              .verdict.ok());
  const HeadFacts facts{.now = story.now};
  const std::string shown = ExecutorView(story.core, facts, {1})->Dump() +
                            ExecutorPageView(story.core, facts, {}).Dump() +
                            SessionView(story.core, facts, kOutside, 0).Dump() +
                            StatusView(story.core, facts).Dump();
  CHECK(shown.find("s3cret") == std::string::npos);
  const LaunchSpec launch = LaunchSpecFor(story.core.world, FenceOfExecutor(1));
  CHECK(launch.params == R"({"token":"s3cret"})");
  CHECK(launch.env.at("E") == "s3cret");
}

TEST_CASE("executors: on a node that drains they are told, and continue until it is gone") {
  Story story;
  REQUIRE(story.Do(AsksFor(1, "k")).verdict.ok());
  story.SyncTwice();
  CHECK(StateOfExecutor(story, 1) == "RUNNING");
  const uint64_t before = FindSession(story.core.world, kOutside)->changed_seq;
  story.Do(input::DrainNode{story.node, "to clean it"});
  CHECK(StateOfExecutor(story, 1) == "STOPPING");
  const uint64_t drained = FindSession(story.core.world, kOutside)->changed_seq;
  CHECK(drained > before);
  CHECK(!DesiredFor(story.core.world, story.node).at(0).stop);
  story.Do(input::UndrainNode{story.node});
  CHECK(StateOfExecutor(story, 1) == "RUNNING");
  CHECK(FindSession(story.core.world, kOutside)->changed_seq > drained);
}

TEST_CASE("executors: a head that stood still takes no session for silent") {
  Story story;
  REQUIRE(story.Do(AsksFor(1, "k")).verdict.ok());
  story.now += limits::kSessionLease + 10'000;  // Nobody could be heard meanwhile.
  story.Do(input::Tick{});
  CHECK(StateOfExecutor(story, 1) != "ENDED");
  for (Millis waited = 0; waited <= limits::kSessionLease + 1'000; waited += 200) {
    story.now += 200;
    story.Sync();
    story.Do(input::Tick{});
  }
  CHECK(StateOfExecutor(story, 1) == "STOPPING");
}

TEST_CASE("executors: a driver may not release those of another session") {
  Story story;
  REQUIRE(story.Do(AsksFor(1, "k")).verdict.ok());
  input::ReleaseExecutors release = ReleasesAll();
  release.all = false;
  release.executors = {{1}};
  release.session = "other";
  CHECK(absl::IsNotFound(story.Do(release).verdict));
  release.owner = "bob";
  release.session = "s";
  CHECK(absl::IsNotFound(story.Do(release).verdict));
  input::StopExecutor kill{.executor = {}, .owner = "bob", .actor = "a", .reason = "x"};
  CHECK(absl::IsNotFound(story.Do(kill).verdict));
  release.owner = "ann";
  CHECK(story.Do(release).verdict.ok());
  release.executors = {{1}, {77}};  // Unknown ones may have ended long ago.
  CHECK(story.Do(release).verdict.ok());
}

TEST_CASE("executors: an actor whose constructor raised says why until its name is taken") {
  Story story;
  const std::string actor =
      R"(,"detached":true,"actor":{"name":"a","class":"Store"},"max_restarts":-1)";
  REQUIRE(story.Do(AsksFor(1, "k", actor)).verdict.ok());
  story.SyncTwice();
  story.running[FenceOfExecutor(1)].error = {"ValueError", std::string(9'000, 'm'),
                                             std::string(60'000, 't')};
  story.Exit(FenceOfExecutor(1), 1, 0);
  const Executor& ended = story.core.world.state.executors.at({1});
  CHECK(ended.end == ExecutorEnd::kFailed);
  CHECK(ended.reason.starts_with("the constructor of Store raised ValueError: mmm"));
  CHECK(ended.reason.size() <= limits::kReasonBytesMax);
  CHECK(ended.error.message.size() == limits::kReasonBytesMax);
  CHECK(ended.error.traceback.size() == limits::kActorTracebackBytes);
  const HeadFacts facts{.now = story.now};
  const auto shown = [&](const Core& core) {
    const auto view = ActorView(core, facts, "ann", "a");
    const std::string listed =
        std::to_string(ActorListView(core, facts, "ann").Find("items")->array().size());
    if (!view.ok()) return "none of " + listed;
    const Json* error = view->Find("error");
    return view->GetString("state") + " " + (error->is_null() ? "" : error->GetString("class")) +
           " of " + listed;
  };
  CHECK(shown(story.core) == "ENDED ValueError of 1");
  Core next;
  next.world.state = story.core.world.state;
  Reindex(next.world);
  CHECK(shown(next) == "ENDED ValueError of 1");
  REQUIRE(story.Do(AsksFor(1, "k2", actor)).verdict.ok());
  CHECK(shown(story.core) == "STARTING  of 1");
  story.Do(input::StopExecutor{.executor = {}, .owner = "ann", .actor = "a", .reason = "x"});
  story.SyncTwice();
  for (const auto& [fence, observed] : std::map(story.running)) story.Exit(fence, 0, 0);
  CHECK(shown(story.core) == "none of 0");  // It was stopped: the earlier one is not shown again.
  next.world.state = story.core.world.state;
  next.world.index = {};
  Reindex(next.world);
  CHECK(shown(next) == "none of 0");
}

TEST_CASE("executors: a detached actor that fails over and over pauses, in any head") {
  Story story;
  const std::string actor = R"(,"detached":true,"actor":{"name":"a"},"max_restarts":-1)";
  REQUIRE(story.Do(AsksFor(1, "k", actor)).verdict.ok());
  auto fail = [&](uint32_t attempt) {
    story.SyncTwice();
    story.Exit(FenceOfExecutor(1, attempt), 1, 0);
    return story.core.world.state.executors.at({1}).restart_at - story.now;
  };
  fail(1);
  CHECK(StateOfExecutor(story, 1) != "PENDING");  // At once.
  CHECK(fail(2) == 1'000);
  CHECK(StateOfExecutor(story, 1) == "PENDING");
  const auto view = ExecutorView(story.core, {.now = story.now + 1}, {1});
  REQUIRE(view.ok());
  CHECK(view->Find("waiting")->GetString("reason") ==
        "restarts in 1 s: failed 2 times in a row (exited with code 1)");
  CHECK(view->GetString("restart_at") == FormatTime(story.now + 1'000));
  auto await = [&](Core& core, Millis from, Millis pause) {
    for (Millis waited = 0; waited < pause; waited += 100) {
      CHECK(core.world.state.executors.at({1}).runs.live() == nullptr);
      Step(core, input::Tick{}, from + waited);
    }
    Step(core, input::Tick{}, from + pause);
    CHECK(core.world.state.executors.at({1}).runs.live() != nullptr);
    CheckInvariants(core);
  };
  Core next;
  next.world.state = story.core.world.state;
  Reindex(next.world);
  CheckInvariants(next);
  Step(next, input::StartHead{"c", "test", "1"}, story.now);
  input::Sync sync = story.SyncInput();
  Step(next, sync, story.now);
  await(next, story.now, 1'000);
  story.now += 1'000;
  story.Do(input::Tick{});
  CHECK(fail(3) == 2'000);
  // A pause does not keep anybody from ending it.
  input::StopExecutor kill{.executor = {}, .owner = "ann", .actor = "a", .reason = "x"};
  CHECK(story.Do(kill).verdict.ok());
  CHECK(StateOfExecutor(story, 1) == "ENDED");
  CHECK(story.core.world.index.executors.delayed.empty());
}

TEST_CASE("executors: a pause grows to a minute; a process that ran for a minute ends the row") {
  Story story;
  const std::string actor = R"(,"detached":true,"actor":{"name":"a"},"max_restarts":-1)";
  REQUIRE(story.Do(AsksFor(1, "k", actor)).verdict.ok());
  const std::vector<Millis> owed = {0, 1'000, 2'000, 4'000, 8'000, 16'000, 32'000, 60'000, 60'000};
  uint32_t attempt = 0;
  const auto pause = [&] {
    const Millis until = story.core.world.state.executors.at({1}).restart_at;
    return until == 0 ? 0 : until - story.now;
  };
  auto wait_for = [&](Millis span) {
    for (Millis waited = 0; waited < span; waited += 250) {
      story.now += 250;
      story.Sync();
      story.Do(input::Tick{});
    }
  };
  for (Millis each : owed) {
    story.SyncTwice();
    story.Exit(FenceOfExecutor(1, ++attempt), 1, 0);
    CHECK(pause() == each);
    wait_for(each);
  }
  story.SyncTwice();
  wait_for(limits::kActorSteadyAfter);
  story.Exit(FenceOfExecutor(1, ++attempt), 1, 0);
  CHECK(pause() == 0);
  CHECK(StateOfExecutor(story, 1) != "PENDING");
}

}  // namespace rt
