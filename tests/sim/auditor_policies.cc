// The auditor's part about policies: what an experiment's retry rules, watchdog and breaker may do,
// and which parts make a checkpoint of several ranks.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {

void AuditedSpec::ReadDriver(const Json& driver) {
  asks_driver = true;
  searches = driver.GetBool("suggests");
  schedules = driver.GetBool("judges");
  selects_next = driver.GetBool("chooses");
  driver_explores = driver.GetBool("explores");
  driver_allocates = driver.GetBool("allocates");
}

void AuditedSpec::ReadPolicies(const Json& json) {
  if (const Json* rules = json.Find("retry"))
    for (const Json& rule : rules->array())
      retry.push_back({static_cast<int>(rule.GetInt("exit_code")), !rule.GetString("log").empty(),
                       rule.GetString("then")});
  if (const Json* preflight = json.Find("preflight"); preflight && preflight->is_object())
    link_gbps_least = preflight->GetDouble("min_bus_gbps", 0);
  if (const Json* watchdog = json.Find("watchdog")) hangs_allowed = watchdog->GetInt("restarts", 3);
  if (const Json* breaker = json.Find("breaker")) breaker_trials = breaker->GetInt("trials", 5);
}

// The first rule that the failure meets, from 1.
uint32_t Auditor::RuleFor(const Fence& fence) const {
  if (!fence.attempt.owner.is_trial()) return 0;
  const auto& rules = experiments_.at({fence.attempt.owner.group}).spec.retry;
  const TruthRun& run = truth_->runs.at(fence);
  const int code = run.signal != 0 ? 128 + run.signal : run.exit_code;
  for (uint32_t i = 0; i < rules.size(); ++i) {
    const bool fits = (rules[i].exit_code == 0 || rules[i].exit_code == code) &&
                      (!rules[i].looks_at_log || run.logged);
    if (fits) return i + 1;
  }
  return 0;
}

// A failure follows the first rule that it meets, and nothing else is forgiven or moved.
void Auditor::CheckRule(const event::AttemptEnded& e, OwnerBook& owner) {
  Fence fence{e.attempt, 0};
  for (const RankExit& exit : owner.exits) {
    if (exit.outcome == AttemptOutcome::kSucceeded) continue;
    fence.rank = exit.rank;
    break;
  }
  const NodeId node = owner.members.at(fence.rank).node;
  if (e.outcome == AttemptOutcome::kHung) {
    Must(truth_->runs.at(fence).hung, "only who hangs is ended for that");
    Must(e.excluded == (owner.hung_on.contains(node) ? node : NodeId{}),
         "the second time that it hangs on a node, it leaves it");
    Must(e.rule == 0 && !e.excused, "rules are for failures");
    for (const Member& member : owner.members) owner.hung_on.insert(member.node);
    ++owner.hangs;
  } else {
    const uint32_t rule = e.outcome == AttemptOutcome::kFailed ? RuleFor(fence) : 0;
    Must(e.rule == rule, "the first rule that a failure meets is followed");
    std::string then;
    if (rule > 0) then = experiments_.at({e.attempt.owner.group}).spec.retry[rule - 1].then;
    Must(e.excused == (then == "retry" || then == "exclude_node"), "a rule says what is forgiven");
    const auto run = truth_->runs.find(fence);
    const bool is_untested = run != truth_->runs.end() && run->second.untested &&
                             e.outcome == AttemptOutcome::kLost && e.exit_code == 127;
    Must(e.excluded == (then == "exclude_node" || is_untested ? node : NodeId{}),
         "a rule says where it may be, or a preflight that failed there");
    owner.must_fail |= then == "fail";
  }
  if (e.excluded.value != 0) owner.excluded.insert(e.excluded);
  const bool is_lost = e.outcome == AttemptOutcome::kLost && e.exit_code == 127;
  owner.preflights_lost = is_lost ? owner.preflights_lost + 1 : 0;
}

// Nothing is placed where it should not be while another node could hold it.
void Auditor::CheckAvoided(const event::AttemptPlaced& e, const OwnerBook& owner) const {
  if (e.attempt.owner.is_trial()) {
    const AuditedSpec& spec = experiments_.at({e.attempt.owner.group}).spec;
    Must(owner.hangs <= static_cast<uint64_t>(spec.hangs_allowed),
         "who hangs too often has failed");
  }
  if (owner.asks.bundles.size() != 1 || !owner.excluded.contains(e.members.at(0).node)) return;
  for (const auto& [id, node] : nodes_) {
    const bool is_there = node.ready && !node.gone && !node.draining;
    Must(!is_there || owner.excluded.contains(id) ||
             !owner.asks.bundles[0].Fits(node.inventory.resources),
         "it goes elsewhere while another node could hold it");
  }
}

void Auditor::CheckBreaker(const ExperimentBook& experiment) const {
  const AuditedSpec& spec = experiment.spec;
  const auto wanted = static_cast<uint64_t>(spec.breaker_trials);
  const auto ended = std::count_if(experiment.trials.begin(), experiment.trials.end(),
                                   [](const TrialBook& trial) { return trial.runs.over; });
  const bool first_failed = wanted > 0 && experiment.failed_trials == wanted &&
                            static_cast<uint64_t>(ended) == wanted;
  const bool has_more = !spec.trials_total || *spec.trials_total > wanted;
  Must((spec.fail_fast && experiment.failed_trials > 0) || (first_failed && has_more),
       "a trial failed: fail_fast; or the first ones all did");
}

void Auditor::On(const event::CheckpointShardCommitted& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  const Fence fence{e.attempt, e.rank};
  Must(owner.asks.ranks > 1 && e.rank < owner.asks.ranks, "the rank exists, beside others");
  Must(truth_->manifests.contains(e.manifest), "the bytes were durable before");
  Must(e.seq > 0 && e.seq <= Accepted(fence), "its rows are accepted before");
  Must(e.iteration == truth_->runs.at(fence).rows.at(e.seq - 1).iteration,
       "a shard carries its row's iteration");
  Must(owner.shards.emplace(std::pair{e.seq, e.rank}, e.manifest).second, "a shard is kept once");
}

// A checkpoint that ranks made together has a part of each rank that saves, or is none.
void Auditor::CheckComplete(const event::CheckpointCommitted& e, OwnerBook& owner) {
  std::vector<std::string> shards;
  const auto own = owner.shards.find({e.seq, 0});
  if (own != owner.shards.end()) {
    Must(own->second == e.manifest, "rank 0's shard is the checkpoint's first");
    for (uint32_t rank = 1; rank < owner.asks.ranks; ++rank) {
      const Fence fence{e.attempt, rank};
      Must(e.seq <= Accepted(fence), "every rank has come as far");
      const auto run = truth_->runs.find(fence);
      const bool saves = run != truth_->runs.end() && run->second.checkpoint_rows.contains(e.seq);
      const auto shard = owner.shards.find({e.seq, rank});
      Must(!saves || shard != owner.shards.end(), "no shard of a checkpoint is missing");
      if (shard != owner.shards.end()) shards.push_back(shard->second);
    }
  }
  Must(e.shards == shards, "a checkpoint names its shards");
}

}  // namespace rt::sim
