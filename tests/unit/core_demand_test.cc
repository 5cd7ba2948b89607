// What machines are wanted for beside the requests that wait: attempts that are about to lose their
// node, min_workers, and what request_resources asks for.
#include <catch2/catch.hpp>

#include "common/base/limits.h"
#include "head/view/view.h"
#include "tests/unit/scaled_head.h"

namespace rt {
namespace {

// With a machine for each trial, on which it runs.
std::vector<NodeId> RunTrials(Scaled& head, int trials) {
  head.Search(trials);
  std::vector<uint64_t> numbers;
  for (int i = 1; i <= trials; ++i) numbers.push_back(static_cast<uint64_t>(i));
  head.Create(numbers);
  std::vector<NodeId> nodes;
  for (uint64_t number : numbers) {
    nodes.push_back(head.Join(number, "t" + std::to_string(number)));
    head.Sync(nodes.back());
  }
  return nodes;
}

void GiveNotice(Scaled& head, NodeId node) {
  head.notices[node] = 120'000;
  head.Sync(node);
}

void Submit(Scaled& head, const std::string& key, const std::string& resources) {
  const std::string text =
      R"({"experiment":")" + key + R"(","command":["x"],"resources":)" + resources + "}";
  REQUIRE(head.Do(input::CreateExperiment{.spec = text, .request_key = key, .results_root = "/r"})
              .verdict.ok());
}

Outcome Ask(Scaled& head, std::vector<RequestedBundles> bundles) {
  return head.Do(input::RequestResources{std::move(bundles), "ann"});
}
RequestedBundles Cpus(int64_t each, uint64_t count) { return {{.cpu = each * kUnit}, count}; }

TEST_CASE("demand: a replacement is requested with the notice, while the trial still runs") {
  Scaled head;
  const std::vector<NodeId> nodes = RunTrials(head, 1);
  GiveNotice(head, nodes[0]);  // No tick follows.
  REQUIRE(head.Live() == 2);
  CHECK(head.core.world.index.nodes.at(nodes[0]).attempts.size() == 1);
  head.Tick();
  GiveNotice(head, nodes[0]);
  CHECK(head.Live() == 2);  // It is on its way.
  head.Create({2});
  head.Join(2, "t-2");
  head.Wait(2'000);
  CHECK(head.Live() == 2);  // It has joined, and the trial fits there.
}

TEST_CASE("demand: a trial that fits on another node needs no replacement of its own") {
  Scaled head;
  const std::vector<NodeId> nodes = RunTrials(head, 2);
  head.ExitAll(nodes[1]);
  GiveNotice(head, nodes[0]);
  head.Tick();
  CHECK(head.Live() == 2);
}

TEST_CASE("demand: a trial that was asked to stop needs no replacement") {
  Scaled head;
  const std::vector<NodeId> nodes = RunTrials(head, 1);
  REQUIRE(head.Do(input::StopTrial{{{1}, 0}, "by ann"}).verdict.ok());
  GiveNotice(head, nodes[0]);
  head.Tick();
  CHECK(head.Live() == 1);
}

TEST_CASE("demand: of a gang only the node that drains is replaced") {
  Scaled head;
  Submit(head, "gang", R"({"cpu":1,"ranks":2})");
  head.Tick();
  head.Create({1, 2});
  const NodeId first = head.Join(1, "t1"), second = head.Join(2, "t2");
  head.Sync(first);
  REQUIRE(head.core.world.index.nodes.at(second).attempts.size() == 1);
  GiveNotice(head, second);
  CHECK(head.Live() == 3);
}

TEST_CASE("demand: a node that drains does not count towards min_workers") {
  Scaled head(1, 2);
  head.Tick();
  head.Create({1});
  const NodeId node = head.Join(1, "t1");
  REQUIRE(head.Live() == 1);
  GiveNotice(head, node);
  REQUIRE(head.Live() == 2);
  head.Create({2});
  head.Join(2, "t2");
  head.Wait(kIdle + 5'000);
  CHECK(head.Live() == 1);  // The one that drains was idle, and is released.
  CHECK(head.state().machines.at(2).is_live());
}

TEST_CASE("demand: a machine that is being removed counts towards max_workers until it is gone") {
  Scaled head(0, 1);
  const std::vector<NodeId> nodes = RunTrials(head, 1);
  head.ExitAll(nodes[0]);
  head.Wait(kIdle + 2'000);
  REQUIRE(head.Live() == 0);
  head.Do(input::CreateExperiment{
      .spec = R"({"experiment":"f","command":["x"]})", .request_key = "f", .results_root = "/r"});
  head.Tick();
  CHECK(head.Live() == 0);
  CHECK(WhyWaiting(head.core, Owner::Of(TrialId{{2}, 0}), head.now)
            .reason.find("at max_workers 1, 1 being removed") != std::string::npos);
  head.Do(input::MachinesTerminated{{1}});
  head.Tick();
  CHECK(head.Live() == 1);
}

TEST_CASE("demand: an idle machine is released once its logs are fetched, or not in time") {
  for (const bool in_time : {true, false}) {
    Scaled head;
    head.core.soft.fetches_logs = true;
    const std::vector<NodeId> nodes = RunTrials(head, 2);
    for (NodeId node : nodes) head.ExitAll(node);
    head.Do(input::NodeLogsFetched{nodes[0]});  // It is not about to leave: that means nothing.
    head.Wait(kIdle + 2'000);
    REQUIRE(head.core.soft.leaving.size() == 2);
    CHECK(head.Live() == 2);
    if (in_time) head.Do(input::NodeLogsFetched{nodes[0]});
    head.Tick();
    CHECK(head.Live() == (in_time ? 1 : 2));
    CHECK(head.state().nodes.at(nodes[0]).gone == in_time);
    head.Wait(limits::kFetchLogsMax + 1'000);
    CHECK(head.Live() == 0);
  }
}

TEST_CASE("requested resources: machines are made at once, kept, and released when it ends") {
  Scaled head(0, 20);
  REQUIRE(Ask(head, {Cpus(1, 12)}).records.size() == 2);
  CHECK(head.Live() == 12);  // The upscaling speed does not hold.
  CHECK(Ask(head, {Cpus(1, 12)}).records.empty());
  REQUIRE(Ask(head, {Cpus(1, 2)}).verdict.ok());
  head.Create({1, 2});
  head.Do(input::MachinesFailed{1, ProviderError::kCapacity, "two of twelve"});
  head.Join(1, "t1");
  head.Join(2, "t2");
  head.Wait(2 * kIdle);
  CHECK(head.Live() == 2);
  head.Restart();  // The journal has it.
  head.Wait(2 * kIdle);
  CHECK(head.Live() == 2);
  REQUIRE(Ask(head, {}).verdict.ok());
  head.Wait(2 * kIdle);
  CHECK(head.Live() == 0);
}

TEST_CASE("requested resources: what runs counts as if it did not") {
  Scaled head(0, 5);
  RunTrials(head, 2);
  Ask(head, {Cpus(1, 2)});
  head.Tick();
  CHECK(head.Live() == 2);
  Ask(head, {Cpus(1, 3)});
  CHECK(head.Live() == 3);
  Submit(head, "third", R"({"cpu":1})");
  head.Tick();
  CHECK(head.Live() == 3);  // The one on its way holds what waits, too.
}

TEST_CASE("requested resources: a node that drains is replaced") {
  Scaled head(0, 5);
  Ask(head, {Cpus(1, 1)});
  head.Create({1});
  GiveNotice(head, head.Join(1, "t1"));
  CHECK(head.Live() == 2);
}

TEST_CASE("requested resources: max_workers holds, and the status says what is not met and why") {
  Scaled head(0, 3);
  CHECK(RequestedView(head.core, {.now = head.now}).is_null());
  Ask(head, {Cpus(1, 5)});
  CHECK(head.Live() == 3);
  head.Create({1, 2, 3});
  for (uint64_t number : {1, 2, 3}) head.Join(number, "t" + std::to_string(number));
  head.Tick();
  const Json view = RequestedView(head.core, {.now = head.now});
  CHECK(view.Find("bundles")->array().at(0).GetInt("count") == 5);
  CHECK(view.GetString("by") == "ann");
  CHECK(view.GetInt("unmet") == 2);
  CHECK(view.GetString("reason") == "pool cpu: at max_workers 3");
}

TEST_CASE("requested resources: a bundle that no node could hold is refused") {
  Scaled head;
  head.core.soft.node_types = {{.cpu = kUnit}};
  const Outcome refused = Ask(head, {Cpus(1, 1), Cpus(2, 1)});
  CHECK(absl::IsInvalidArgument(refused.verdict));
  CHECK(head.state().requested_bundles.empty());
  CHECK(head.Live() == 0);
}

}  // namespace
}  // namespace rt
