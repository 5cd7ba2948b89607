#include "head/core/incarnations.h"
#include "tests/unit/core_story.h"

using namespace rt;

TEST_CASE("core: trials are placed as capacity allows and run to the end") {
  Story story;
  story.Create(R"(,"num_samples":3)");
  story.SyncTwice();
  CHECK(story.StateOf(0) == "RUNNING");
  CHECK(story.StateOf(1) == "RUNNING");
  CHECK(story.StateOf(2) == "PENDING");
  auto view = TrialView(story.core, {.now = story.now}, {{1}, 2});
  const std::string why = view->Find("waiting")->GetString("reason");
  CHECK(why.find("needs 1 cpu; no node has one free (closest: ") == 0);
  CHECK(why.ends_with("free)"));
  for (uint32_t i = 0; i < 3; ++i) story.Exit(story.FenceOf(i), 0, 0);
  CHECK(story.StateOf(2) == "COMPLETED");
  CHECK(story.core.world.state.experiments.at({1}).finishing);
  story.Do(input::SinksFlushed{story.core.world.state.seq});
  CHECK(ExperimentStateName(story.core, story.core.world.state.experiments.at({1})) ==
        std::string("COMPLETED"));
}

TEST_CASE("core: an attempt ends only once its last report is accepted") {
  Story story;
  story.Create("");
  story.SyncTwice();
  Fence fence = story.FenceOf(0);
  story.Exit(fence, 0, 2);
  CHECK(story.StateOf(0) == "RUNNING");
  CHECK(story.Report(fence, 1, R"({"a":1})").acked_seq == 1);
  CHECK(story.Report(fence, 3, R"({"a":1})").acked_seq == 1);  // A gap is not accepted.
  CHECK(story.Report(fence, 2, R"({"a":1})").acked_seq == 2);
  CHECK(story.StateOf(0) == "COMPLETED");
  CHECK(story.Report(fence, 3, R"({"a":1})").stale);
}

TEST_CASE("core: a report from an older attempt is dropped") {
  Story story;
  story.Create(R"(,"max_failures":1)");
  story.SyncTwice();
  story.Exit(story.FenceOf(0), 1, 0);
  CHECK(story.StateOf(0) == "RUNNING");
  CHECK(story.TrialOf(0).runs.failures == 1);
  CHECK(story.Report(story.FenceOf(0, 1), 1, "{}").stale);
  CHECK(!story.Report(story.FenceOf(0, 2), 1, "{}").stale);
  story.Exit(story.FenceOf(0, 2), 1, 1);
  CHECK(story.StateOf(0) == "FAILED");
}

TEST_CASE("core: an exit that no daemon saw does not count as a failure") {
  Story story;
  story.Create("");
  story.SyncTwice();
  story.Exit(story.FenceOf(0), 9, 0, false);
  CHECK(story.TrialOf(0).runs.failures == 0);
  CHECK(story.TrialOf(0).runs.losses == 1);
  CHECK(story.StateOf(0) == "RUNNING");
}

TEST_CASE("core: a stop rule keeps exactly the rows up to the one that met it") {
  Story story;
  story.Create(R"(,"stop":{"training_iteration":3})");
  story.SyncTwice();
  Fence fence = story.FenceOf(0);
  RowBatch batch{fence.attempt, 0, {}};
  for (uint64_t i = 1; i <= 5; ++i)
    batch.rows.push_back({i, static_cast<double>(i), 1, story.now, "{}"});
  Outcome outcome = story.Do(input::Report{story.node, {batch}});
  CHECK(outcome.answer.verdicts[0].stop);
  CHECK(outcome.answer.verdicts[0].stop_seq == 3);
  CHECK(outcome.answer.verdicts[0].acked_seq == 5);
  REQUIRE(outcome.rows.size() == 1);
  CHECK(outcome.rows[0].rows.size() == 3);
  CHECK(DesiredFor(story.core.world, story.node).at(0).stop);
  story.Exit(fence, 143, 5);
  CHECK(story.StateOf(0) == "COMPLETED");
}

TEST_CASE("core: a silent node is lost and its trials go on elsewhere from the checkpoint") {
  Story story;
  story.Create("");
  story.SyncTwice();
  Fence fence = story.FenceOf(0);
  story.Report(fence, 1, R"({"a":1})");
  Outcome committed = story.Do(input::CommitCheckpoint{
      .fence = fence, .manifest = "m1", .row = {2, 2, 1, story.now, R"({"a":2})"}, .bytes = 10});
  REQUIRE(committed.verdict.ok());
  CHECK(committed.answer.checkpoint == 1);
  story.Report(fence, 3, R"({"a":3})");
  for (int i = 0; i < 17; ++i) {
    story.now += limits::kTickInterval;
    story.Do(input::Tick{});
  }
  CHECK(story.StateOf(0) == "RUNNING");
  story.now += limits::kTickInterval;
  story.Do(input::Tick{});
  CHECK(story.StateOf(0) == "PENDING");
  CHECK(std::string(NodeStateName(story.core, story.core.world.state.nodes.at({1}))) == "LOST");
  story.running.clear();
  story.SyncTwice();
  CHECK(story.TrialOf(0).runs.live()->number == 2);
  LaunchSpec launch = LaunchSpecFor(story.core.world, story.FenceOf(0, 2));
  CHECK(launch.checkpoint == "m1");
  CHECK(launch.iteration_base == 2);
  CHECK(story.TrialOf(0).reports == 2);
  CHECK(story.TrialOf(0).last.metrics == R"({"a":2})");
}

TEST_CASE("core: a trial whose command is too long with its parameters is refused") {
  Story story;
  std::string command = "\"x\"";
  for (int i = 0; i < 20; ++i) command += ",\"${s}\"";
  const Outcome outcome = story.Do(input::CreateExperiment{
      .spec = R"({"experiment":"e","space":{"s":{"choice":[")" + std::string(60'000, 'x') +
              R"("]}},"command":[)" + command + "]}",
      .request_key = "long", .drawn_seed = 9, .results_root = "/r"});
  INFO(outcome.verdict.ToString());
  REQUIRE(outcome.verdict.ok());
  story.SyncTwice();
  const LaunchSpec launch = LaunchSpecFor(story.core.world, story.FenceOf(0));
  CHECK(launch.argv.empty());
  CHECK(launch.refusal == "command: is longer than 1 MiB once its parameters are filled in");
}

TEST_CASE("core: a head that was stopped takes no node for lost") {
  Story story;
  story.Create("");
  story.SyncTwice();
  story.now += 3'000;
  story.Do(input::Tick{});
  CHECK(story.StateOf(0) == "RUNNING");
}

TEST_CASE("core: no work goes to a node that still runs a superseded attempt") {
  Story story;
  story.running[story.FenceOf(0, 1)] = {story.FenceOf(0, 1), Observed::Phase::kRunning, 1};
  story.SyncTwice();
  story.Create("");
  story.Do(input::Tick{});
  CHECK(story.StateOf(0) == "PENDING");
  story.running.clear();
  story.SyncTwice();
  CHECK(story.StateOf(0) != "PENDING");
}

TEST_CASE("core: a request key gives the same answer twice") {
  Story story;
  input::SubmitJob submit{"me", R"({"name":"j","argv":["true"]})", "key"};
  JobId first = story.Do(submit).answer.job;
  Outcome again = story.Do(submit);
  CHECK(again.answer.job == first);
  CHECK(again.answer.attached);
  CHECK(again.records.empty());
}

TEST_CASE("core: what no node of the configuration can hold is refused, naming the largest") {
  Story story;
  const auto ask = [&](int gpus) {
    return story.Do(input::CreateExperiment{
        .spec = R"({"experiment":"e","command":["x"],"resources":{"gpu":)" + std::to_string(gpus) +
                "}}",
        .results_root = "/r"}).verdict;
  };
  story.Do(input::StartHead{"c", "test", "1", {{.cpu = 2 * kUnit}, {.gpu = 2 * kUnit}}});
  CHECK(MessageOf(ask(4)) == "asks for 4 gpus; the largest node has 2");
  CHECK(ask(2).ok());  // A node of that kind has not joined yet; it may.
}

TEST_CASE("core: a slip in a spec is refused for every client, but not for one that re-attaches") {
  Story story;
  const auto ask = [&](const std::string& more) {
    return story.Do(input::CreateExperiment{
        .spec = R"({"experiment":"e","command":["x"])" + more + "}", .request_key = "key " + more,
        .results_root = "/r"});
  };
  const std::string grid = R"(,"space":{"lr":{"grid_searh":[1,2]}})";
  const std::string cpus = R"(,"resources":{"cpus":1})";
  CHECK(MessageOf(ask(grid).verdict) == "space/lr/grid_searh: unknown distribution 'grid_searh'");
  CHECK(HintOf(ask(grid).verdict).starts_with("did you mean 'grid_search'?"));
  CHECK(MessageOf(ask(cpus).verdict) == "resources/cpus: no node has the resource 'cpus'");
  CHECK(HintOf(ask(cpus).verdict) == "did you mean 'cpu'?");
  CHECK(ask(R"(,"resources":{"license":1})").verdict.ok());  // A node that has it may join.
  // An earlier release accepted both.
  for (const std::string& more : {grid, cpus}) {
    const uint64_t next = story.core.world.state.next_experiment;
    const Record record{story.core.world.state.seq + 1, story.now,
                        event::ExperimentCreated{.experiment = ExperimentId{next},
                            .spec = R"({"experiment":"e","command":["x"])" + more + "}",
                            .request_key = "key " + more, .results_dir = "/r/" + more}};
    story.Take(record);
    CHECK(ask(more).answer.attached);
  }
}

TEST_CASE("core: a late Sync of a daemon that has a successor is not believed") {
  Story story;
  story.Create("");
  story.SyncTwice();
  input::Sync older = story.SyncInput();
  older.observed.clear();  // It did not know of the trial yet.
  input::Sync newer = story.SyncInput();
  newer.incarnation = newer.inventory.incarnation = 8;
  story.Do(newer);
  CHECK(story.Do(older).records.empty());
  CHECK(story.StateOf(0) == "RUNNING");
}

TEST_CASE("core: an incarnation far ahead of the clock is refused and shuts no later daemon out") {
  Story story;
  story.Create("");
  story.SyncTwice();
  input::Sync impossible = story.SyncInput();
  impossible.incarnation = impossible.inventory.incarnation = UINT64_MAX;
  const absl::Status refused = story.Do(impossible).verdict;
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK(MessageOf(refused).find("a day ahead of the head's clock") != std::string::npos);
  CHECK(story.StateOf(0) == "RUNNING");
  input::Sync latest = story.SyncInput();
  latest.incarnation = latest.inventory.incarnation =
      static_cast<uint64_t>(story.now + kIncarnationAheadMax);
  CHECK(story.Do(latest).verdict.ok());
}

TEST_CASE("core: a node whose incarnation an older release took from anybody comes back") {
  Story story;
  Record poison{.seq = story.core.world.state.seq + 1, .at = story.now};
  event::NodeReady ready{story.node, story.SyncInput().inventory};
  ready.inventory.incarnation = UINT64_MAX;
  poison.event = ready;
  story.Take(poison);
  story.Create("");
  story.SyncTwice();
  CHECK(story.core.world.state.nodes.at(story.node).inventory.incarnation == 0);
  CHECK(story.StateOf(0) == "RUNNING");
}

TEST_CASE("core: without a configuration a large request waits for a node that may join") {
  Story story;
  const ExperimentId id = story.Create(R"(,"resources":{"gpu":4})");
  story.SyncTwice();
  CHECK(story.StateOf(0) == "PENDING");
  auto view = TrialView(story.core, {.now = story.now}, {id, 0});
  CHECK(view->Find("waiting")->GetString("reason") ==
        "asks for 4 gpus; the largest node has 0");
  story.Do(input::CreateToken{"tok2", "worker", 1000, ""});
  const NodeId big = story.Do(input::UseToken{"tok2", "n2"}).answer.node;
  input::Sync sync{.node = big, .incarnation = 1, .sync_seq = 1};
  sync.inventory.resources = {.cpu = kUnit, .gpu = 4 * kUnit};
  story.Do(sync);
  CHECK(story.StateOf(0) == "STARTING");
}

TEST_CASE("core: an attempt whose accepted rows were lost with a head starts anew") {
  Story story;
  story.Create("");
  story.SyncTwice();
  const Fence fence = story.FenceOf(0);
  CHECK(story.Report(fence, 1, R"({"a":1})").acked_seq == 1);
  story.running[fence].acked_seq = 1;
  story.Sync();
  CHECK(story.TrialOf(0).runs.live()->number == 1);
  // The head before this one had accepted row 2; the worker has forgotten it.
  story.running[fence].acked_seq = 2;
  story.Sync();
  story.running.erase(fence);
  story.SyncTwice();
  CHECK(story.TrialOf(0).runs.live()->number == 2);
  CHECK(story.TrialOf(0).runs.failures == 0);
  CHECK(story.Report(fence, 3, R"({"a":1})").stale);
}
