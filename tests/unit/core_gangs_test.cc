// Gangs: where several bundles go, all or nothing, and what is said while they wait.
#include "head/core/draft.h"
#include "head/core/places.h"
#include "head/view/why.h"
#include "tests/unit/core_story.h"

using namespace rt;

namespace {

// A head with nodes 1, 2, … of the given cpus and gpus.
struct Nodes {
  Core core;
  std::vector<Record> log;
  Outcome Do(const Input& input) {
    Outcome outcome = Step(core, input, 1'000'000);
    log.insert(log.end(), outcome.records.begin(), outcome.records.end());
    CheckInvariants(core);
    return outcome;
  }
  explicit Nodes(const std::vector<Resources>& sizes) {
    Do(input::StartHead{"c", "test", "1"});
    for (const Resources& size : sizes) {
      const std::string token = "token" + std::to_string(log.size());
      Do(input::CreateToken{token, "worker", 1000, ""});
      input::Sync sync{.node = Do(input::UseToken{token, token}).answer.node, .incarnation = 1,
                       .sync_seq = 1};
      sync.inventory.resources = size;
      sync.inventory.address = "10.0.0." + std::to_string(sync.node.value);
      Do(sync);
    }
  }
  absl::Status Submit(const std::string& resources) {
    return Do(input::CreateExperiment{
        .spec = R"({"experiment":"e","command":["x"],"resources":)" + resources + "}",
        .drawn_seed = 1, .results_root = "/r"}).verdict;
  }
  // The nodes of the newest experiment's trial, by rank; empty while it waits.
  std::vector<uint64_t> Where() const {
    std::vector<uint64_t> nodes;
    const Experiment& newest = core.world.state.experiments.rbegin()->second;
    const Attempt* live = newest.trials.front().runs.live();
    if (live == nullptr) return nodes;
    for (const Member& member : live->members) nodes.push_back(member.node.value);
    return nodes;
  }
  std::string Why() const {
    const Experiment& newest = core.world.state.experiments.rbegin()->second;
    return WhyWaiting(core, Owner::Of(newest.trials.front().id), 1'000'000).reason;
  }
};

Resources Cpus(int64_t cpu, int64_t gpu = 0) { return {.cpu = cpu * kUnit, .gpu = gpu * kUnit}; }

using Where = std::vector<uint64_t>;

}  // namespace

TEST_CASE("gangs: PACK takes few nodes, and the smallest on which all fit") {
  Nodes nodes({Cpus(8), Cpus(2), Cpus(4)});
  REQUIRE(nodes.Submit(R"({"cpu":1,"ranks":3})").ok());
  CHECK(nodes.Where() == Where{3, 3, 3});
  REQUIRE(nodes.Submit(R"({"cpu":1,"ranks":10})").ok());
  CHECK(nodes.Where() == Where{1, 1, 1, 1, 1, 1, 1, 1, 2, 2});
}

TEST_CASE("gangs: SPREAD takes many nodes, and shares them when it must") {
  Nodes nodes({Cpus(2), Cpus(2)});
  REQUIRE(nodes.Submit(R"({"cpu":1,"ranks":3,"strategy":"SPREAD"})").ok());
  const Where where = nodes.Where();
  REQUIRE(where.size() == 3);
  CHECK(where[0] != where[1]);
}

TEST_CASE("gangs: STRICT_PACK and STRICT_SPREAD wait rather than bend") {
  Nodes nodes({Cpus(4), Cpus(4)});
  REQUIRE(nodes.Submit(R"({"cpu":3})").ok());
  REQUIRE(nodes.Submit(R"({"cpu":1,"ranks":2,"strategy":"STRICT_SPREAD"})").ok());
  CHECK(Where{nodes.Where()}.size() == 2);
  REQUIRE(nodes.Submit(R"({"cpu":2,"ranks":2,"strategy":"STRICT_PACK"})").ok());
  CHECK(nodes.Where().empty());
  CHECK(nodes.Why() == "needs 2 bundles of 2 cpus (STRICT_PACK), all at once; 1 of them fit now");
}

TEST_CASE("gangs: so many ranks on each node, and waiting rather than bending") {
  Nodes nodes({Cpus(8), Cpus(2), Cpus(3)});
  REQUIRE(nodes.Submit(R"({"cpu":1,"ranks":4,"ranks_per_node":2})").ok());
  CHECK(nodes.Where() == Where{2, 2, 3, 3});
  REQUIRE(nodes.Submit(R"({"cpu":1,"ranks":4,"ranks_per_node":2})").ok());
  CHECK(nodes.Where().empty());
  CHECK(nodes.Why() == "needs 4 bundles of 1 cpu (2 on each node), all at once; 2 of them fit now");
  REQUIRE(nodes.Submit(R"({"cpu":1,"ranks":8,"ranks_per_node":8})").ok());
  CHECK(nodes.Where() == Where{1, 1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("gangs: after a resize to no multiple of the ranks on a node, one node has fewer") {
  ResourceRequest wanted{.bundles = {Cpus(1), Cpus(1)}, .ranks = 2, .ranks_per_node = 2};
  wanted = wanted.WithRanks(3);
  std::vector<FreeCapacity> capacities{{.id = {1}, .free = Cpus(2)}, {.id = {2}, .free = Cpus(1)}};
  const auto places = PackAll(capacities, wanted);
  REQUIRE(places.has_value());
  CHECK(places->at(0).node.value == 1);
  CHECK(places->at(1).node.value == 1);
  CHECK(places->at(2).node.value == 2);
  CHECK_FALSE(PackAll(capacities, wanted).has_value());
  capacities.front().free = Cpus(1);
  CHECK(PackAll(capacities, wanted.WithRanks(1)).has_value());
}

TEST_CASE("gangs: a program of torchrun gets all its variables, also as the only rank") {
  Nodes nodes({Cpus(4)});
  auto submit = [&](const std::string& more) {
    return nodes
        .Do(input::CreateExperiment{
            .spec = R"({"experiment":"e","command":["x"],"resources":{"cpu":1})" + more + "}",
            .drawn_seed = 1,
            .results_root = "/r"})
        .verdict;
  };
  const auto env_of = [&](uint64_t experiment) {
    const AttemptId attempt{Owner::Of(TrialId{ExperimentId{experiment}, 0}), 1};
    return LaunchSpecFor(nodes.core.world, {attempt, 0});
  };
  REQUIRE(submit("").ok());
  CHECK_FALSE(env_of(1).env.contains("RANK"));
  REQUIRE(submit(R"(,"env":{"TORCHELASTIC_RUN_ID":"r"})").ok());
  LaunchSpec launch = env_of(2);
  for (const char* name :
       {"RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "TORCHELASTIC_RESTART_COUNT"})
    CHECK(launch.env[name] == "0");
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"})
    CHECK(launch.env[name] == "1");
  CHECK(launch.env["MASTER_ADDR"] == "127.0.0.1");
  CHECK(launch.keeps_port);
}

TEST_CASE("gangs: a request that fits on no set of nodes is refused, and says what is missing") {
  Nodes nodes({Cpus(4), Cpus(4, 1)});
  nodes.core.soft.node_types = {Cpus(4), Cpus(4, 1)};
  const absl::Status spread = nodes.Submit(R"({"cpu":1,"ranks":3,"strategy":"STRICT_SPREAD"})");
  CHECK(MessageOf(spread) == "asks for 3 bundles of 1 cpu (STRICT_SPREAD); the cluster's 2 nodes "
                             "cannot hold them at once, even when empty");
  CHECK(!nodes.Submit(R"({"cpu":5,"ranks":2})").ok());
  CHECK(!nodes.Submit(R"({"bundles":[{"gpu":1},{"gpu":0.5}]})").ok());
  CHECK(nodes.Submit(R"({"bundles":[{"gpu":0.5},{"gpu":0.5,"cpu":4}]})").ok());
  CHECK(nodes.Where() == Where{2, 2});
}

TEST_CASE("gangs: the biggest bundle chooses first, ranks keep their order") {
  Nodes nodes({Cpus(3), Cpus(1, 1)});
  REQUIRE(nodes.Submit(R"({"bundles":[{"cpu":1},{"cpu":1,"gpu":1},{"cpu":2}]})").ok());
  CHECK(nodes.Where() == Where{1, 2, 1});
}

TEST_CASE("ranks: each gets its rank, and the address at which all meet") {
  Nodes nodes({Cpus(2), Cpus(1)});
  REQUIRE(nodes.Submit(R"({"cpu":1,"ranks":3})").ok());
  REQUIRE(nodes.Where() == Where{1, 1, 2});
  const AttemptId id{Owner::Of(TrialId{{1}, 0}), 1, 1};
  CHECK(DesiredFor(nodes.core.world, NodeId{2}).empty());
  LaunchSpec first = LaunchSpecFor(nodes.core.world, {id, 0});
  CHECK((first.keeps_port && first.port == 0));
  input::Sync sync{.node = {1}, .incarnation = 1, .sync_seq = 2};
  sync.inventory = nodes.core.world.state.nodes.at({1}).inventory;
  sync.observed.push_back({{id, 0}, Observed::Phase::kPreparing, 0, 29'500});
  nodes.Do(sync);
  REQUIRE(DesiredFor(nodes.core.world, NodeId{2}).size() == 1);
  CHECK(DesiredFor(nodes.core.world, NodeId{1}).size() == 2);
  LaunchSpec last = LaunchSpecFor(nodes.core.world, {id, 2});
  CHECK((last.port == 29'500 && !last.keeps_port && last.world_size == 3));
  const std::map<std::string, std::string> expected = {
      {"RANK", "2"}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"},
      {"GROUP_RANK", "1"}, {"NODE_RANK", "1"}, {"GROUP_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "10.0.0.1"}};
  for (const auto& [name, value] : expected) CHECK(last.env.at(name) == value);
  CHECK(LaunchSpecFor(nodes.core.world, {id, 1}).env.at("LOCAL_RANK") == "1");
  // Who may speak for which rank at their barriers is known where they meet.
  const std::vector<NodeId> where = {NodeId{1}, NodeId{1}, NodeId{2}};
  CHECK(first.rank_nodes == where);
  CHECK(LaunchSpecFor(nodes.core.world, {id, 1}).rank_nodes == where);
  CHECK(last.rank_nodes.empty());
}

TEST_CASE("ranks: bundles beyond the ranks are reserved and start nothing") {
  Nodes nodes({Cpus(2), Cpus(1, 2)});
  REQUIRE(nodes.Submit(R"({"bundles":[{"gpu":1},{"gpu":1},{"cpu":2}],"ranks":1})").ok());
  REQUIRE(nodes.Where() == Where{2, 2, 1});
  CHECK(DesiredFor(nodes.core.world, NodeId{1}).empty());
  REQUIRE(DesiredFor(nodes.core.world, NodeId{2}).size() == 1);
  const AttemptId id{Owner::Of(TrialId{{1}, 0}), 1, 1};
  const LaunchSpec launch = LaunchSpecFor(nodes.core.world, {id, 0});
  CHECK(launch.world_size == 1);
  CHECK(!launch.env.contains("RANK"));
}

TEST_CASE("ranks: a shard that rank 0's checkpoint did not wait for is refused with the reason") {
  Nodes nodes({Cpus(2)});
  REQUIRE(nodes.Submit(R"({"cpu":1,"ranks":2})").ok());
  const AttemptId id{Owner::Of(TrialId{{1}, 0}), 1, 1};
  const auto commit = [&](uint32_t rank, uint64_t row, bool collective) {
    return nodes.Do(input::CommitCheckpoint{.fence = {id, rank},
                                            .manifest = "m" + std::to_string(rank),
                                            .row = {row, static_cast<double>(row), 1, 1, "{}"},
                                            .bytes = 1,
                                            .collective = collective});
  };
  CHECK(commit(0, 1, false).answer.checkpoint == 1);
  nodes.Do(input::Report{NodeId{1}, {{id, 0, {{2, 2, 1, 1, "{}"}}}}});
  nodes.Do(input::Report{NodeId{1}, {{id, 0, {{3, 3, 1, 1, "{}"}}}}});
  nodes.Do(input::Report{NodeId{1}, {{id, 1, {{1, 1, 1, 1, "{}"}}}}});
  const absl::Status refused = commit(1, 2, true).verdict;
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK(MessageOf(refused) == "rank 0 has no checkpoint at that row that waits for this shard");
  CHECK(absl::IsFailedPrecondition(commit(2, 2, true).verdict));  // There is no such rank.
}

TEST_CASE("ranks: a pending checkpoint is no checkpoint, and is dropped with its attempt") {
  Nodes nodes({Cpus(2)});
  REQUIRE(nodes.Submit(R"({"cpu":1,"ranks":2})").ok());
  const AttemptId id{Owner::Of(TrialId{{1}, 0}), 1, 1};
  const Outcome pending = nodes.Do(input::CommitCheckpoint{.fence = {id, 0},
                                                           .manifest = "m0",
                                                           .row = {1, 1, 1, 1, "{}"},
                                                           .bytes = 1,
                                                           .collective = true});
  CHECK(pending.verdict.ok());
  CHECK(pending.answer.checkpoint == 0);
  const Runs& runs = nodes.core.world.state.experiments.at({1}).trials.at(0).runs;
  CHECK(runs.checkpoints.empty());
  REQUIRE(runs.live() != nullptr);
  CHECK(runs.live()->shards.size() == 1);
  nodes.Do(input::RemoveNode{{1}, "gone"});
  CHECK(runs.attempts.back().shards.empty());
}
