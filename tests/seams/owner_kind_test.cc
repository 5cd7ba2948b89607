// A third kind of owner of attempts adds one row of policies. This one is a service: it runs until
// somebody stops it, and starts again whenever its program ends.
#include <catch2/catch.hpp>

#include "head/core/index.h"
#include "head/core/owner_policy.h"
#include "head/view/why.h"

using namespace rt;

namespace {

constexpr auto kService = static_cast<Owner::Kind>(100);
const Owner kWeb{kService, 1, 0};

// A real kind has a map in State for this.
struct Service {
  Runs runs;
  bool stop_requested = false;
  Millis created_at = 1'000'000;
  Millis started_at = 0;
} service;

const std::string kUser = "ann";

const ResourceRequest kRequest = [] {
  ResourceRequest request;
  request.bundles = {Resources{.cpu = kUnit}, Resources{.cpu = kUnit}};
  request.ranks = 2;
  return request;
}();

const OwnerPolicy kServicePolicy = {
    .kind = kService,
    .runs = [](const State&, const Owner& owner) -> const Runs* {
      return owner == kWeb ? &service.runs : nullptr;
    },
    .each = [](const State&, const std::function<void(const Owner&)>& visit) { visit(kWeb); },
    .is_over = [](const State&, const Owner&) { return false; },
    .is_stopping = [](const State&, const Owner&) { return service.stop_requested; },
    .may_run = [](const State&, const Owner&) { return !service.stop_requested; },
    .created_at = [](const State&, const Owner&) { return service.created_at; },
    .user = [](const State&, const Owner&) -> const std::string& { return kUser; },
    .request = [](const World&, const Owner&) -> const ResourceRequest& { return kRequest; },
    .apply_placed = [](World&, const event::AttemptPlaced&, Millis at) { service.started_at = at; },
    .reindex = [](World& world) { ReindexRuns(world, kWeb); },
    .after_attempt = [](Draft&, const event::AttemptEnded&) {},
    .fill_launch = [](const World&, const Attempt&,
                      LaunchSpec& launch) { launch.argv = {"serve"}; },
};

struct Cluster {
  Core core;
  Millis now = 1'000'000;
  uint64_t sync_seq = 0;
  std::map<Fence, Observed> running;

  Outcome Do(const Input& input) {
    Outcome outcome = Step(core, input, now);
    CheckInvariants(core);
    return outcome;
  }
  void Sync() {
    input::Sync sync{.node = NodeId{1}, .incarnation = 7, .sync_seq = ++sync_seq};
    sync.inventory.resources.cpu = 2 * kUnit;
    for (const auto& [fence, observed] : running) sync.observed.push_back(observed);
    Do(sync);
    for (const DesiredAttempt& desired : DesiredFor(core.world, NodeId{1}))
      if (!running.contains(desired.fence))
        running[desired.fence] = {.fence = desired.fence, .phase = Observed::Phase::kRunning,
                                  .pid = 4242, .port = desired.fence.rank == 0 ? 7000u : 0u};
  }
  void Exit(const Fence& fence) { running.at(fence).phase = Observed::Phase::kExited; }
  const Attempt* live() { return FindRuns(core.world.state, kWeb)->live(); }
};

}  // namespace

TEST_CASE("a kind of owner is one row: placed, launched, ended, placed again, stopped") {
  if (FindPolicy(kService) == nullptr) AddOwnerPolicy(kServicePolicy);
  Cluster cluster;
  cluster.Do(input::StartHead{"c", "test", "1"});
  cluster.Do(input::CreateToken{"tok", "worker", 1000, ""});
  cluster.Do(input::UseToken{"tok", "n1"});
  AddReady(cluster.core.world, kWeb);
  CHECK(WhyWaiting(cluster.core, kWeb, cluster.now).reason ==
        "waits: the only node cannot take work now");
  CHECK(UserOf(cluster.core.world.state, kWeb) == "ann");

  cluster.Sync();  // The node has capacity for both ranks.
  REQUIRE(cluster.live() != nullptr);
  CHECK(RanksOf(cluster.core.world, kWeb, *cluster.live()) == 2);
  const Fence first{{kWeb, 1}, 0}, second{{kWeb, 1}, 1};
  cluster.Sync();  // Rank 0 runs and keeps a port: rank 1 is wanted as well.
  cluster.Sync();
  REQUIRE(cluster.running.contains(first));
  REQUIRE(cluster.running.contains(second));
  CHECK(LaunchSpecFor(cluster.core.world, second).argv == std::vector<std::string>{"serve"});
  CHECK(LaunchSpecFor(cluster.core.world, second).env.at("WORLD_SIZE") == "2");

  cluster.Exit(first);
  cluster.Exit(second);
  cluster.Sync();  // It ended by itself, and starts again.
  REQUIRE(cluster.live() != nullptr);
  CHECK(cluster.live()->number == 2);

  World restarted;  // A head that starts from a snapshot finds it running.
  restarted.state = cluster.core.world.state;
  Reindex(restarted);
  CHECK(restarted.index.nodes.at(NodeId{1}).used.cpu == 2 * kUnit);

  // A head that continues from an older copy of the journal gives no number of an attempt twice.
  const uint32_t next = service.runs.next_attempt;
  Apply(restarted,
        {.seq = restarted.state.seq + 1, .at = cluster.now, .event = event::HeadRolledBack{}});
  CHECK(service.runs.next_attempt > next + 100);

  service.stop_requested = true;
  for (const DesiredAttempt& desired : DesiredFor(cluster.core.world, NodeId{1}))
    CHECK(desired.stop);
  const Fence second_run{{kWeb, 2}, 0};
  cluster.running = {{second_run, {.fence = second_run, .phase = Observed::Phase::kExited}}};
  cluster.Sync();
  CHECK(cluster.live() == nullptr);
  CHECK(cluster.core.world.index.ready_order.empty());
}
