// Machines by demand: when they are asked for and released, and what the provider's answers mean.
#include <catch2/catch.hpp>

#include "common/base/limits.h"
#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "head/view/view.h"
#include "tests/unit/scaled_head.h"

namespace rt {
namespace {

TEST_CASE("pools: demand asks for machines once, and trials are placed where they join") {
  Scaled head;
  head.Tick();
  CHECK(head.state().machines.empty());
  head.Search(2);
  REQUIRE(head.Live() == 2);
  head.Tick();  // The request is open: nothing more is asked for.
  CHECK(head.Live() == 2);
  REQUIRE(head.Wishes().create.size() == 1);
  CHECK(head.Wishes().create[0].machines == std::vector<uint64_t>{1, 2});
  CHECK(head.Why(0).find("pool cpu: 2 machines requested") != std::string::npos);
  head.Create({1, 2});
  CHECK(head.Wishes().create.empty());
  const NodeId first = head.Join(1, "t1");
  CHECK(head.state().nodes.at(first).name == "worker-1");
  CHECK(head.state().nodes.at(first).machine == 1);
  head.Sync(first);
  CHECK(head.core.world.index.nodes.at(first).attempts.size() == 1);
  head.Wait(2'000);
  CHECK(head.Live() == 2);
}

TEST_CASE("pools: no more than max_workers are asked for, and why says so") {
  Scaled head(0, 1);
  head.Search(5);
  CHECK(head.Live() == 1);
  head.Create({1});
  head.Join(1, "t1");
  head.Wait(1'000);
  CHECK(head.Live() == 1);
  CHECK(head.Why(1).find("pool cpu: at max_workers 1") != std::string::npos);
}

TEST_CASE("pools: max_workers of the cluster bounds all pools, and why says so") {
  Scaled head(0, 5);
  head.max_workers = 2;
  head.Restart();
  head.Search(4);
  CHECK(head.Live() == 2);
  head.Create({1, 2});
  head.Join(1, "t1");
  head.Join(2, "t2");
  head.Wait(1'000);
  CHECK(head.Live() == 2);
  CHECK(head.Why(3).find("pool cpu: max_workers 2 of the cluster is reached") != std::string::npos);
}

TEST_CASE("pools: an idle node is released after the timeout, but min_workers stay") {
  Scaled head(1, 3);
  head.Tick();
  REQUIRE(head.Live() == 1);  // Without demand.
  head.Create({1});
  const NodeId stays = head.Join(1, "t1");
  head.Search(2);
  REQUIRE(head.Live() == 2);
  head.Create({2});
  const NodeId goes = head.Join(2, "t2");
  head.Wait(kIdle + 5'000);  // Both are busy.
  CHECK(head.Live() == 2);
  head.ExitAll(goes);
  head.Wait(kIdle - 2'000);
  CHECK(head.Live() == 2);
  head.Wait(4'000);
  REQUIRE(head.Live() == 1);
  CHECK(head.state().nodes.at(goes).gone);
  REQUIRE(head.Wishes().terminate.size() == 1);
  CHECK(head.Wishes().terminate[0].id == "i-2");
  head.ExitAll(stays);
  head.Wait(kIdle + 5'000);
  CHECK(head.Live() == 1);
  head.Do(input::MachinesTerminated{{1, 2}});  // Only what was released is over.
  CHECK(head.state().machines.size() == 1);
  CHECK(head.Wishes().terminate.empty());
  CHECK(head.state().last_machine == 2);
}

TEST_CASE("pools: an attempt that begins and ends between two ticks counts as work") {
  Scaled head;
  head.Search(1);
  head.Create({1});
  const NodeId node = head.Join(1, "t1");
  head.ExitAll(node);
  head.Wait(kIdle - 2'000);
  REQUIRE(head.Live() == 1);
  head.Do(input::CreateExperiment{
      .spec = R"({"experiment":"f","command":["x"]})", .request_key = "f", .results_root = "/r"});
  head.Sync(node);
  REQUIRE(!head.core.world.index.nodes.at(node).attempts.empty());
  head.ExitAll(node);
  REQUIRE(head.core.world.index.nodes.at(node).attempts.empty());
  head.Wait(kIdle - 2'000);
  CHECK(head.Live() == 1);
  head.Wait(4'000);
  CHECK(head.Live() == 0);
}

TEST_CASE("pools: a node with the only copy of a checkpoint is not idle") {
  Scaled head;
  head.Search(1);
  head.Create({1});
  const NodeId node = head.Join(1, "t1");
  head.Sync(node);
  const Fence fence{{Owner::Of(TrialId{{1}, 0}), 1, 1}, 0};
  const Row row{.seq = 1, .iteration = 1, .time_total_s = 1, .metrics = "{}"};
  const Outcome committed = head.Do(input::CommitCheckpoint{
      .node = node, .fence = fence, .manifest = "b3:1", .row = row, .replicas = {node}});
  REQUIRE(committed.verdict.ok());
  head.running[node].at(fence).last_seq = 1;
  head.ExitAll(node);
  REQUIRE(head.core.world.index.nodes.at(node).attempts.empty());
  REQUIRE(head.core.world.index.nodes.at(node).replica_count == 1);
  head.Wait(kIdle + 5'000);
  CHECK(head.Live() == 1);
  head.Do(input::RenewReplica{.node = node,
                              .owner = fence.attempt.owner,
                              .manifest = "b3:1",
                              .status = input::RenewReplica::ReplicaStatus::kStored});
  head.Wait(kIdle + 5'000);
  CHECK(head.Live() == 0);
}

TEST_CASE("pools: a definite failure forgets the request, and waits before the next one") {
  Scaled head;
  head.Search(2);
  head.Do(input::MachinesFailed{1, ProviderError::kQuota, "two instances at most"});
  CHECK(head.state().machines.empty());
  CHECK(head.Why(0).find("pool cpu: quota (two instances at most), tried again in 5 s") !=
        std::string::npos);
  head.Wait(limits::kMachineRetryFirst - 500);
  CHECK(head.Live() == 0);
  head.Wait(1'000);
  REQUIRE(head.Live() == 2);
  CHECK(head.Wishes().create[0].request == 3);  // A number is never used again.
  head.Do(input::MachinesFailed{3, ProviderError::kQuota, "still"});
  const Millis second = head.state().pools.at("cpu").retry_at - head.now;
  CHECK(second == 2 * limits::kMachineRetryFirst);
  head.Wait(second + 500);
  head.Create({5, 6});
  CHECK(head.state().pools.empty());
}

TEST_CASE("pools: an unclear failure keeps the request, which is repeated under its numbers") {
  Scaled head;
  head.Search(2);
  head.Do(input::MachinesFailed{1, ProviderError::kRetryLater, "no answer"});
  CHECK(head.Live() == 2);
  CHECK(head.Wishes().create.empty());
  head.Wait(2 * limits::kMachineLookFirst);
  REQUIRE(head.Wishes().create.size() == 1);
  CHECK(head.Wishes().create[0].machines == std::vector<uint64_t>{1, 2});
  // List shows that one of the two was made.
  head.Do(input::MachinesListed{{{1, "i-1", "cpu"}}, head.now});
  CHECK(head.Wishes().create[0].machines == std::vector<uint64_t>{2});
  CHECK(head.Live() == 2);
}

TEST_CASE("pools: fewer machines than asked for: the rest of the request failed") {
  Scaled head;
  head.Search(3);
  head.Create({1, 2});
  head.Do(input::MachinesFailed{1, ProviderError::kCapacity, "only 2 of 3"});
  CHECK(head.Live() == 2);
  CHECK(head.Wishes().create.empty());
}

TEST_CASE("pools: a machine that the journal does not know is removed, and its number never used") {
  Scaled head;
  head.Do(input::MachinesListed{{{7, "i-7", "cpu"}}, head.now});
  REQUIRE(head.Wishes().terminate.size() == 1);
  CHECK(head.Wishes().terminate[0].id == "i-7");
  head.Do(input::MachinesTerminated{{7}});
  CHECK(head.state().machines.empty());
  head.Search(1);
  CHECK(head.Wishes().create[0].request == 8);
}

TEST_CASE("pools: a machine that vanished takes its node along, unless the list is too old") {
  Scaled head;
  head.Search(1);
  head.Create({1});
  const NodeId node = head.Join(1, "t1");
  head.Sync(node);
  head.Do(input::MachinesListed{{}, head.state().machines.at(1).created_at});
  CHECK(head.Live() == 1);
  head.now += 1'000;
  head.Do(input::MachinesListed{{}, head.now});
  CHECK(head.state().nodes.at(node).gone);
  CHECK(FindTrial(head.state(), {{1}, 0})->runs.attempts.back().outcome == AttemptOutcome::kLost);
  head.Tick();
  CHECK(head.state().machines.size() == 1);  // The next one.
  CHECK(head.Wishes().create[0].request == 2);
}

TEST_CASE(
    "pools: only a machine that is wanted joins, and one that joins again replaces its node") {
  Scaled head;
  head.Search(1);
  head.Create({1});
  const NodeId first = head.Join(1, "t1");
  const NodeId second = head.Join(1, "t2");  // It could not keep its certificate.
  CHECK(head.state().nodes.at(first).gone);
  CHECK(head.state().nodes.at(second).name == "worker-1");
  CHECK(head.state().machines.at(1).node == second);
  REQUIRE(head.Do(input::CreateToken{"t3", "worker", 60'000, "cpu", "worker-1", 1}).verdict.ok());
  REQUIRE(head.Do(input::RemoveNode{second, "by hand"}).verdict.ok());
  head.Tick();
  CHECK(!head.state().machines.at(1).is_live());
  CHECK(absl::IsPermissionDenied(head.Do(input::UseToken{"t3", ""}).verdict));
  CHECK(absl::IsPermissionDenied(
      head.Do(input::CreateToken{"t4", "worker", 60'000, "cpu", "worker-1", 1}).verdict));
  CHECK(absl::IsPermissionDenied(
      head.Do(input::CreateToken{"t5", "worker", 60'000, "cpu", "worker-99", 99}).verdict));
}

TEST_CASE("pools: a machine whose node never joins is released") {
  Scaled head;
  head.Search(1);
  head.Create({1});
  head.Wait(limits::kMachineJoinMax - 1'000);
  CHECK(head.state().machines.at(1).is_live());
  head.Wait(2'000);
  CHECK(!head.state().machines.at(1).is_live());
  CHECK(head.Live() == 1);  // Another one was asked for.
}

TEST_CASE("pools: a machine that has joined has the time of its setup commands as well") {
  Scaled head;
  head.Search(1);
  head.Create({1});
  REQUIRE(
      head.Do(input::CreateToken{"t1", "worker", 60'000, "cpu", MachineName(1), 1}).verdict.ok());
  REQUIRE(head.Do(input::UseToken{"t1", ""}).verdict.ok());
  head.now += limits::kMachineJoinMax + limits::kSetupMax - 1'000;
  head.Tick();
  CHECK(head.state().machines.at(1).is_live());
  head.now += 2'000;
  head.Tick();
  CHECK(!head.state().machines.at(1).is_live());
}

TEST_CASE("pools: without the least number of nodes and the idle time, idle nodes go at once") {
  Scaled head(1);
  head.Tick();
  head.Create({1});
  const NodeId node = head.Join(1, "t1");
  head.Sync(node);
  head.Wait(kIdle + 5'000);
  CHECK(head.Live() == 1);
  PoolSpec emptied = head.pool;
  emptied.min_workers = 0;
  emptied.idle_timeout = 0;
  head.Do(input::SetPools{{emptied}});
  head.Wait(1'000);
  CHECK(head.Live() == 0);
  head.Do(input::SetPools{{head.pool}});
  head.Tick();
  CHECK(head.Live() == 1);
}

TEST_CASE("pools: a head that starts asks for nothing while its nodes come back") {
  Scaled head(0, 3);
  head.Search(2);
  head.Create({1, 2});
  const NodeId one = head.Join(1, "t1"), two = head.Join(2, "t2");
  head.Sync(one);
  head.ExitAll(two);
  REQUIRE(head.Do(input::CreateExperiment{
                      .spec = R"({"experiment":"f","command":["x"],"resources":{"cpu":1}})",
                      .request_key = "l",
                      .results_root = "/r"})
              .verdict.ok());
  const uint64_t next = head.state().last_machine;
  head.Restart();
  head.Tick();
  CHECK(head.state().last_machine == next);
  head.Wait(2'000);
  CHECK(head.state().last_machine == next);
}

TEST_CASE("pools: a machine of a pool that is no longer configured is released") {
  Scaled head;
  head.Search(1);
  head.Create({1});
  const NodeId node = head.Join(1, "t1");
  head.pool.name = "other";
  head.Restart();
  head.Tick();
  CHECK(head.state().nodes.at(node).gone);
  CHECK(head.Wishes().terminate.size() == 1);
}

TEST_CASE("pools: lists and the status show machines that were asked for") {
  Scaled head(0, 2);
  head.Search(2);
  const HeadFacts facts{.now = head.now};
  const Json status = StatusView(head.core, facts);
  CHECK(status.Find("nodes")->Find("by_state")->GetInt("REQUESTED") == 2);
  Json first = NodeListView(head.core, facts).Find("items")->array().at(0);
  CHECK(first.Find("id")->is_null());
  CHECK(first.GetString("name") == "worker-1");
  CHECK(first.GetString("state") == "REQUESTED");
  CHECK(first.GetString("pool") == "cpu");
  CHECK(first.GetString("requested_at") == FormatTime(head.now));
  CHECK(first.GetString("reason") == "the provider is asked for it");
  const auto shown = RequestedNodeView(head.core, facts, "worker-1");
  REQUIRE(shown.ok());
  CHECK(*shown == first);
  CHECK(!RequestedNodeView(head.core, facts, "worker-3").ok());
  head.Do(input::MachinesFailed{1, ProviderError::kRetryLater, "no answer"});
  first = NodeListView(head.core, facts).Find("items")->array().at(0);
  CHECK(first.GetString("reason") ==
        "the provider is asked for it; no answer: no answer; tried again in 1 s");
  head.Create({1, 2});
  first = NodeListView(head.core, facts).Find("items")->array().at(0);
  CHECK(first.GetString("reason") == "the provider has it as i-1; it has not joined");
  // Machine 1 joins, and a node that nobody asked for takes the name of machine 2.
  head.Join(1, "t1");
  REQUIRE(head.Do(input::CreateToken{"t2", "worker", 60'000, ""}).verdict.ok());
  REQUIRE(head.Do(input::UseToken{"t2", "worker-2"}).verdict.ok());
  const Json nodes = NodeListView(head.core, facts);
  for (const Json& node : nodes.Find("items")->array())
    CHECK(node.GetString("state") != "REQUESTED");
  CHECK(StatusView(head.core, facts).Find("nodes")->Find("by_state")->Find("REQUESTED") == nullptr);
}

TEST_CASE("pools: of the nodes that left, the oldest are forgotten") {
  Scaled head(0, 1);
  auto join = [&] {
    REQUIRE(head.DoUnchecked(input::CreateToken{"t", "worker", 60'000, ""}).verdict.ok());
    return head.DoUnchecked(input::UseToken{"t", ""}).answer.node;
  };
  const NodeId stays = join(), first = join();
  REQUIRE(head.Do(input::RemoveNode{first, "by hand"}).verdict.ok());
  ++head.now;
  for (size_t i = 1; i < limits::kGoneNodesKept; ++i)
    REQUIRE(head.DoUnchecked(input::RemoveNode{join(), "by hand"}).verdict.ok());
  head.Tick();
  CHECK(head.state().nodes.size() == limits::kGoneNodesKept + 1);
  const Json nodes = *StatusView(head.core, HeadFacts{.now = head.now}).Find("nodes");
  CHECK(nodes.GetInt("total") == 1);
  CHECK(nodes.Find("by_state")->GetInt("GONE") == static_cast<int64_t>(limits::kGoneNodesKept));
  const NodeId last = join();
  ++head.now;
  REQUIRE(head.Do(input::RemoveNode{last, "by hand"}).verdict.ok());
  CHECK(head.state().nodes.size() == limits::kGoneNodesKept + 1);
  CHECK(!head.state().nodes.contains(first));
  CHECK(head.state().nodes.contains(stays));
  CHECK(head.state().nodes.contains(last));
  CHECK(absl::IsNotFound(head.Do(input::Sync{.node = first, .incarnation = 7}).verdict));
  head.Restart();
  CHECK(join().value == last.value + 1);
}

TEST_CASE("pools: the status names a pool and what it has") {
  Scaled head(0, 2);
  head.Search(2);
  const Json status = StatusView(head.core, HeadFacts{.now = head.now});
  const Json& pool = status.Find("pools")->array().at(0);
  CHECK(pool.GetString("name") == "cpu");
  CHECK(pool.GetInt("requested") == 2);
  CHECK(pool.Find("reason")->is_null());
}

}  // namespace
}  // namespace rt
