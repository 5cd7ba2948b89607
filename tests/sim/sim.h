// What every part of a simulation shares: virtual time, the one random stream, the queue of what
// happens next, the lossy network, and the truth that the auditor compares claims with.
// One thread per simulation; everything follows from the seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/ids.h"
#include "common/base/rng.h"
#include "common/base/time.h"
#include "common/spec/pool.h"
#include "head/core/events.h"
#include "tests/sim/faults.h"
#include "tests/sim/shard.h"

namespace rt::sim {

// Ends the simulation: the seed and `what` are printed, and the program fails.
[[noreturn]] void Fail(const std::string& what);
inline void Require(bool ok, const char* what) {
  if (!ok) Fail(what);
}

// What a rank trained with before the report number `seq` of its attempt.
struct TakenBatch {
  uint64_t seq = 0;
  DataBatch batch;
};
// What really happened to one run, whatever anybody was told.
struct TruthRun {
  std::vector<Row> rows;
  bool exited = false;
  int32_t exit_code = 0;
  int32_t signal = 0;
  bool witnessed = false;
  bool launch_failed = false;
  bool asked_to_stop = false;
  bool forgotten = false;  // Its node came back without its run directory.
  // It was evicted from a draining node, and had this many rows when it was asked to save.
  std::optional<size_t> evicted_after;
  // It had this many rows when it was first asked to save for an eviction that still holds.
  std::optional<size_t> announced_after;
  uint32_t port = 0;  // Where it meets the other ranks.
  std::set<uint64_t> checkpoint_rows;  // Rows of a rank other than 0 that came with a shard.
  bool logged = false;  // Its log has what the retry rules look for.
  bool raised = false;  // Of an actor: its process said what its constructor raised.
  bool hung = false;    // It reported nothing more, and its daemon saw that.
  bool gpu_failed = false;  // A gpu that it held failed while it ran, and its daemon saw that.
  bool untested = false;    // Its preflight failed, and named neither a gpu nor a link.
  std::vector<ObservedLink> slow_links;  // Because of which its preflight failed.
  double bus_gbps = 0;                   // What its preflight, which was well, measured.
  std::vector<TakenBatch> taken;  // Of its share of a data set.
  std::set<uint32_t> frozen_rounds;  // For which it was stopped,
  uint64_t frozen_after = 0;         // the last time after this many rows.
  bool is_unfit() const { return gpu_failed || untested; }
  bool killed_frozen = false;        // While it was, or because it could not continue.
};
// A session of a driver, and what drivers asked for in it.
struct TruthSession {
  Owner opener;  // No owner: the driver is outside of attempts.
  std::string user, name;
  friend auto operator<=>(const TruthSession&, const TruthSession&) = default;
};
// That a head took a message of a session's driver.
struct SessionSign {
  Millis at = 0;       // By that head's clock,
  uint64_t epoch = 0;  // which no other head shares.
};
struct ExecutorAsk {
  uint64_t count = 0;
  std::string spec;  // JSON.
  bool detached = false;
  std::string actor;
  int64_t max_restarts = 0;
};
// What became of the bytes that a node had on its disk on the store's behalf.
enum class Copy { kThere, kRotten, kReleased, kLostDisk };
struct Truth {
  std::map<Fence, TruthRun> runs;
  std::set<std::string> manifests;  // Durable in the store.
  std::set<std::string> broken;     // Of these, those whose bytes could not be restored.
  std::map<std::string, std::map<NodeId, Copy>>
      copies;  // All replicas that nodes ever had, by manifest.
  // Messages that a node has lost them, for as long as the head may receive one: by then the node
  // may have been given them again.
  std::multiset<std::pair<std::string, NodeId>> said_gone;
  std::set<std::string> vanished;  // Of these, those that a worker looked for in vain.
  // What was ever said to have been written, by manifest: by which rank, and who said it.
  std::map<std::string, std::pair<Fence, NodeId>> outputs;
  std::map<Fence, uint64_t> arrived;  // The newest barrier that a rank has come to.
  // What ranks that read a data set saved of their positions, by manifest.
  std::map<std::string, std::pair<uint32_t, ShardPosition>> positions;
  std::set<Owner> readers;  // Trials whose ranks have begun to read a data set.
  std::map<AttemptId, std::set<uint32_t>> ports;  // That rank 0's nodes kept for it.
  std::map<Owner, std::set<uint32_t>> resizes;    // Sizes that a person asked for.
  std::set<Owner> stops;            // Trials and jobs that a person asked to stop.
  std::set<ExperimentId> experiment_stops;
  std::set<NodeId> notices;     // Nodes that said that they are to go.
  std::set<NodeId> emptied;     // Nodes whose machine is gone, or has lost its disk.
  std::set<std::pair<NodeId, uint64_t>> aways;  // Daemons that announced to be away.
  // Of executors: requests by session and key, heard or not; those that somebody released, and
  // sessions that were released whole; and when a head last took a message of the session's driver,
  // by its clock.
  std::map<std::pair<TruthSession, std::string>, ExecutorAsk> executor_requests;
  std::set<ExecutorId> executor_stops;
  std::set<std::string> actor_stops;
  std::set<TruthSession> session_stops;
  std::map<TruthSession, SessionSign> session_heard;
  std::set<std::string> asked;  // Of a person: "pause 3", "retry 3/1", …
  // What drivers answered, whether it was heard or not.
  std::map<TrialId, std::set<std::string>> suggested;  // Configuration and resources.
  // What search models proposed, whether it was heard or not: configuration, and whether it is a
  // fallback.
  std::map<TrialId, std::set<std::pair<std::string, bool>>> proposed;
  // What search models were told of rungs, by experiment, epoch and newest record: the values of
  // each trial, by milestone.
  std::map<std::tuple<ExperimentId, uint64_t, uint64_t>, std::vector<std::map<double, double>>>
      told;
  // What a model of a population proposed for its clones.
  std::set<std::pair<TrialId, std::string>> explored;
  std::set<std::pair<TrialId, std::string>> allocated;  // Resources that drivers answered.
  std::set<TrialId> advised_stops;
  std::set<ExperimentId> advised_ends, finished_searches;
  // Of the cloud: how its pools are configured, and what was ever made, by machine.
  std::map<std::string, PoolSpec> pools;
  std::optional<uint32_t> max_workers;  // Of all pools together.
  std::vector<std::vector<RequestedBundles>> requests;  // That people have made, heard or not.
  std::map<uint64_t, std::string> machine_ids;
  std::set<std::string> machines_gone;  // Ids of what is not there any more.
  Millis head_awake_since = 0;  // By the head's clock: its start, or the end of a SIGSTOP.

  // What became of the node's bytes; nullopt: it never had them.
  std::optional<Copy> CopyOf(const std::string& manifest, NodeId node) const {
    auto all = copies.find(manifest);
    if (all == copies.end() || !all->second.contains(node)) return std::nullopt;
    return all->second.at(node);
  }
  bool IsThere(const std::string& manifest, NodeId node) const {
    return CopyOf(manifest, node) == Copy::kThere;
  }
};

class WorkerHost;

class Sim {
 public:
  explicit Sim(uint64_t seed, bool is_cloud = false)
      : rng(seed, is_cloud ? 4 : 1),
        plan(is_cloud ? FaultPlan::DrawForCloud(rng) : FaultPlan::Draw(rng)) {}

  using Effect = std::function<void()>;
  using Reply = std::function<void(Effect)>;

  void At(Millis delay, Effect effect) {
    queue_.push_back({now + delay, order_++, std::move(effect)});
    std::push_heap(queue_.begin(), queue_.end(), Later);
  }
  // Runs what comes next; false when nothing does.
  bool RunNext() {
    if (queue_.empty()) return false;
    std::pop_heap(queue_.begin(), queue_.end(), Later);
    Entry entry = std::move(queue_.back());
    queue_.pop_back();
    now = entry.at;
    entry.effect();
    return true;
  }
  Millis Between(Millis least, Millis most) {
    return least + static_cast<Millis>(rng.Below(static_cast<uint64_t>(most - least + 1)));
  }
  bool Strikes(double probability, Fault fault) {
    if (calm || !rng.Chance(probability)) return false;
    faults.Add(fault);
    return true;
  }
  // One RPC to the head: `request` runs there, if at all; what it gives to `reply` runs at the
  // caller, if it gets through. The caller has a timeout of its own.
  void Call(std::function<void(Reply)> request) {
    if (Strikes(plan.lost_before, Fault::kLostBefore)) return;
    const Reply lost = [](const Effect&) {};
    if (Strikes(plan.lost_during, Fault::kLostDuring)) {
      At(Between(1, 20), [request, lost] { request(lost); });
    }
    if (Strikes(plan.duplicated, Fault::kDuplicated)) {
      At(Between(1, rng.Chance(0.7) ? 1'500 : 8'000), [request, lost] { request(lost); });
    }
    const Millis delay =
        Strikes(plan.reordered, Fault::kReordered) ? Between(50, 1'200) : Between(1, 20);
    At(delay, [this, request] {
      request([this](const Effect& effect) {
        if (Strikes(plan.lost_after, Fault::kLostAfter)) return;
        At(Between(1, 20), effect);
      });
    });
  }

  Rng rng;
  FaultPlan plan;
  Histogram faults;
  Truth truth;
  std::vector<WorkerHost*> hosts;  // All machines that there ever were.
  bool calm = false;  // No more faults.
  Millis calm_at = 0;
  bool links_stay = false;  // Nobody says that slow links are repaired.
  Millis now = 1'700'000'000'000;
  uint64_t inputs = 0;  // Of the core; ticks and the sinks' progress are not counted.
  // A driver reached a step of its script; `lives` says whether it still runs.
  std::function<void(JobId job, double step, std::function<bool()> lives)> on_driver_step;
  // Called with each batch that the head's disk has; may be empty.
  std::function<void(const std::vector<Record>&, const std::vector<RowBatch>&)> on_kept;

 private:
  struct Entry {
    Millis at = 0;
    uint64_t order = 0;
    Effect effect;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }
  std::vector<Entry> queue_;
  uint64_t order_ = 0;
};

}  // namespace rt::sim
