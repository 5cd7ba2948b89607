// The one reducer: live running, restart, standby and simulator all change the state here, and
// nowhere else. It decides nothing and calls nothing in search or decide.
#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/overloaded.h"
#include "head/core/apply_clones.h"
#include "head/core/apply_freeze.h"
#include "head/core/apply_gpus.h"
#include "head/core/apply_links.h"
#include "head/core/apply_machines.h"
#include "head/core/apply_resize.h"
#include "head/core/apply_runs.h"
#include "head/core/core.h"
#include "head/core/driver_records.h"
#include "head/core/executor_index.h"
#include "head/core/index.h"
#include "head/core/owner_policy.h"
#include "head/core/profiles.h"
#include "head/core/requests.h"

namespace rt {
namespace {

constexpr uint32_t kNumbersSkipped = 1'000;  // More than can be given out unnoticed.
constexpr size_t kRequestKeysKept = 65'536;

struct Applier {
  World& world;
  Millis at;
  uint64_t seq;

  State& state() { return world.state; }
  Trial& TrialOf(TrialId id) {
    Trial* trial = FindTrial(world.state, id);
    RT_CHECK(trial != nullptr);
    return *trial;
  }
  Runs& RunsOf(const Owner& owner) {
    Runs* runs = FindRuns(world.state, owner);
    RT_CHECK(runs != nullptr);
    return *runs;
  }
  Checkpoint& CheckpointOf(const Owner& owner, uint64_t id) {
    for (Checkpoint& checkpoint : RunsOf(owner).checkpoints)
      if (checkpoint.id == id) return checkpoint;
    RT_CHECK_BECAUSE(false, "the checkpoint is known");
  }
  void Remember(const std::string& owner, const std::string& key, Request request) {
    if (key.empty()) return;
    request.order = state().next_request++;
    state().requests[RequestSlot(state(), owner, key)] = request;
    if (state().requests.size() <= kRequestKeysKept) return;
    auto oldest = std::min_element(
        state().requests.begin(), state().requests.end(),
        [](const auto& a, const auto& b) { return a.second.order < b.second.order; });
    state().requests.erase(oldest);
  }

  void operator()(const event::HeadStarted& e) {
    state().epoch = e.epoch;
    state().cluster_id = e.cluster_id;
    state().cluster_name = e.cluster_name;
    state().started_at = at;
  }
  void operator()(const event::HeadRolledBack&) {
    state().next_experiment += kNumbersSkipped;
    state().next_job += kNumbersSkipped;
    state().next_node += kNumbersSkipped;
    state().last_machine += kNumbersSkipped;
    state().last_executor += kNumbersSkipped;
    for (const OwnerPolicy* policy : OwnerPolicies())
      policy->each(state(), [&](const Owner& owner) {
        if (!policy->is_over(state(), owner))
          FindRuns(state(), owner)->next_attempt += kNumbersSkipped;
      });
  }
  void operator()(const event::TokenCreated& e) {
    state().tokens[e.token] = {e.token, e.role, e.pool, e.expires_at, e.name, e.machine};
  }
  void operator()(const event::TokenUsed& e) { state().tokens.erase(e.token); }
  void operator()(const event::TokenRevoked& e) { state().tokens.erase(e.token); }

  void operator()(const event::NodeJoined& e) {
    Node node{.id = e.node,
              .name = e.name,
              .pool = e.pool,
              .joined_at = at,
              .changed_at = at,
              .machine = e.machine};
    NoteJoined(state(), e);
    state().nodes[e.node] = std::move(node);
    state().next_node = std::max(state().next_node, e.node.value + 1);
    RefreshFree(world, e.node);
  }
  Node& Change(NodeId id) {
    Node& node = state().nodes.at(id);
    node.changed_at = at;
    node.reason.clear();
    return node;
  }
  void operator()(const event::NodeReady& e) {
    Node& node = Change(e.node);
    node.inventory = e.inventory;
    node.ready = true;
    node.lost = false;
    node.away_until = node.seen_at = 0;
    NoteHeardClears(node);
    NoteHeardFaults(node);
    RefreshFree(world, e.node);
  }
  void operator()(const event::GpuFaultFound& e) { NoteFaulty(state().nodes.at(e.node), e); }
  void operator()(const event::GpuCleared& e) { NoteCleared(state().nodes.at(e.node), e, at); }
  void operator()(const event::LinkFoundSlow& e) { ApplySlowLink(state(), e, at); }
  void operator()(const event::LinkCleared& e) { ApplyClearedLink(state(), e); }
  void operator()(const event::LinkRetried& e) { ApplyRetriedLink(state(), e, at); }
  void operator()(const event::NodeAway& e) { Change(e.node).away_until = e.until; }
  void operator()(const event::NodeLost& e) {
    Node& node = Change(e.node);
    node.lost = true;
    node.away_until = 0;
    node.seen_at = e.seen_at;
    node.draining = node.drained_by_hand;
    node.reason = e.reason;
    RefreshFree(world, e.node);
  }
  void operator()(const event::NodeDraining& e) {
    Node& node = Change(e.node);
    node.draining = true;
    node.drain_until = e.until;
    node.drained_by_hand = e.by_hand;
    node.drain_reason = e.reason;
    for (const Fence& fence : world.index.nodes[e.node].attempts) {
      Millis& since = LiveOf(world, fence.attempt).eviction_requested_at;
      if (since == 0) since = at;
    }
    RefreshFree(world, e.node);
  }
  void operator()(const event::NodeResumed& e) {
    Node& node = Change(e.node);
    node.draining = node.drained_by_hand = false;
    node.drain_reason.clear();
    node.drain_until = 0;
    RefreshFree(world, e.node);
  }
  void operator()(const event::NodeGone& e) {
    Change(e.node);
    NoteGone(world, e);
  }

  void operator()(const event::MachinesRequested& e) { AddMachines(state(), e, at); }
  void operator()(const event::MachinesCreated& e) { ConfirmMachines(state(), e, at); }
  void operator()(const event::MachinesFailed& e) { FailMachines(state(), e); }
  void operator()(const event::MachineReleased& e) { ReleaseMachine(state(), e, at); }
  void operator()(const event::MachineDeleted& e) { state().machines.erase(e.machine); }
  void operator()(const event::ResourcesRequested& e) { NoteRequested(state(), e, at); }

  void operator()(const event::JobSubmitted& e) {
    Job job{.id = e.job, .owner = e.owner, .spec_text = e.spec, .request_key = e.request_key,
            .created_at = at, .normal_spec = e.normal_spec, .spec_format = e.spec_format};
    IndexJob(world, state().jobs[e.job] = std::move(job));
    state().next_job = std::max(state().next_job, e.job.value + 1);
    Remember(e.owner, e.request_key, {.job = e.job});
    AddReady(world, Owner::Of(e.job));
  }
  void operator()(const event::JobStopRequested& e) {
    Job& job = state().jobs.at(e.job);
    job.stop_requested = true;
    job.stop_reason = e.reason;
    RemoveReady(world, Owner::Of(e.job));
  }
  void operator()(const event::JobEnded& e) {
    Job& job = state().jobs.at(e.job);
    job.end = e.end;
    job.exit_code = e.exit_code;
    job.signal = e.signal;
    job.reason = e.reason;
    job.ended_at = at;
    RemoveReady(world, Owner::Of(e.job));
  }

  void operator()(const event::ExecutorRequested& e) { AddExecutor(world, e, at); }
  void operator()(const event::ExecutorReleaseRequested& e) { NoteRelease(world, e); }
  void operator()(const event::ExecutorDelayed& e) { DelayExecutor(world, e); }
  void operator()(const event::ExecutorEnded& e) { EndExecutor(world, e, seq, at); }

  void operator()(const event::ExperimentCreated& e) {
    Experiment experiment{.id = e.experiment, .owner = e.owner, .job = e.job, .spec_text = e.spec,
                          .request_key = e.request_key, .seed = e.seed,
                          .results_dir = e.results_dir, .created_at = at, .created_seq = seq,
                          .normal_spec = e.normal_spec, .spec_format = e.spec_format};
    IndexExperiment(world, state().experiments[e.experiment] = std::move(experiment));
    state().next_experiment = std::max(state().next_experiment, e.experiment.value + 1);
    Remember(e.owner, e.request_key, {.experiment = e.experiment});
  }
  void operator()(const event::ExperimentStopRequested& e) {
    Experiment& experiment = state().experiments.at(e.experiment);
    experiment.stop_cause = e.cause;
    experiment.stop_reason = e.reason;
  }
  void operator()(const event::ExperimentFinishing& e) {
    Experiment& experiment = state().experiments.at(e.experiment);
    experiment.finishing = true;
    experiment.finishing_seq = seq;
    experiment.end = e.end;
    experiment.reason = e.reason;
    PauseBudget(experiment);
    NoteFinishing(world, e.experiment);
  }
  void operator()(const event::ExperimentFinished& e) {
    Experiment& experiment = state().experiments.at(e.experiment);
    experiment.finished = true;
    experiment.ended_at = at;
    world.index.unflushed_experiments.erase(e.experiment);
  }

  // Its time budget does not run from here on.
  void PauseBudget(Experiment& experiment) {
    if (experiment.budget_paused_at == 0) experiment.budget_paused_at = at;
  }
  void ResumeBudget(Experiment& experiment) {
    experiment.budget_paused_total += at - experiment.budget_paused_at;
    experiment.budget_paused_at = 0;
  }
  void operator()(const event::ExperimentPaused& e) {
    Experiment& experiment = state().experiments.at(e.experiment);
    experiment.paused = true;
    experiment.pause_reason = e.reason;
    PauseBudget(experiment);
    const ExperimentIndex& index = world.index.experiments.at(e.experiment);
    for (uint32_t number : index.live) experiment.trials[number].runs.running()->suspending = true;
    for (uint32_t number : index.pending) RemoveReady(world, Owner::Of({e.experiment, number}));
  }
  void operator()(const event::ExperimentResumed& e) {
    Experiment& experiment = state().experiments.at(e.experiment);
    experiment.paused = false;
    experiment.pause_reason.clear();
    if (!experiment.search.over) ResumeBudget(experiment);
    for (uint32_t number : world.index.experiments.at(e.experiment).pending)
      AddIfWanted(experiment, experiment.trials[number]);
  }
  void operator()(const event::ExperimentExtended& e) {
    Experiment& experiment = state().experiments.at(e.experiment);
    experiment.extended = true;
    experiment.num_samples = e.num_samples;
    experiment.time_budget = e.time_budget;
    ExtendSpec(experiment, world.index.experiments.at(e.experiment).spec);
  }
  void operator()(const event::ExperimentReopened& e) {
    Experiment& experiment = state().experiments.at(e.experiment);
    if (!e.retries_only) {
      experiment.search = {};
      experiment.best_values.agreed = 0;  // Its new trials have the rule's patience again.
      ResumeBudget(experiment);
    } else if (!experiment.search.over) {
      experiment.search = {true, experiment.stop_cause, experiment.end, experiment.stop_reason};
    }
    experiment.finishing = experiment.finished = experiment.paused = false;
    experiment.end = ExperimentEnd::kNone;
    experiment.stop_cause = StopCause::kNone;
    experiment.stop_reason.clear();
    experiment.pause_reason.clear();
    experiment.reason.clear();
    experiment.ended_at = 0;
    if (!e.trainable.empty()) experiment.trainable = e.trainable;
    ExtendSpec(experiment, world.index.experiments.at(e.experiment).spec);
    world.index.unflushed_experiments.erase(e.experiment);
    NoteOpen(world, e.experiment);
  }
  void AddIfWanted(const Experiment& experiment, const Trial& trial) {
    if (WantsNodes(experiment, trial)) AddReady(world, Owner::Of(trial.id));
  }
  void operator()(const event::TrialPaused& e) {
    Trial& trial = TrialOf(e.trial);
    trial.pause_cause = e.cause;
    trial.pause_reason = e.reason;
    if (Attempt* running = trial.runs.running()) running->suspending = true;
    NotePaused(world.index.experiments.at(e.trial.experiment), trial);
    RemoveReady(world, Owner::Of(e.trial));
    ReleaseThrottled(world, e.trial.experiment);
  }
  void operator()(const event::TrialResumed& e) {
    Trial& trial = TrialOf(e.trial);
    trial.pause_cause = PauseCause::kNone;
    trial.pause_reason.clear();
    NotePaused(world.index.experiments.at(e.trial.experiment), trial);
    AddIfWanted(state().experiments.at(e.trial.experiment), trial);
  }
  void operator()(const event::TrialReallocated& e) { (*this)(ApplyReallocated(world, e)); }
  void operator()(const event::TrialRetried& e) {
    Trial& trial = TrialOf(e.trial);
    RT_CHECK(trial.end != TrialEnd::kNone);
    ExperimentIndex& index = world.index.experiments.at(e.trial.experiment);
    UncountEnd(index, trial.end);
    index.pending.insert(e.trial.number);
    trial.end = TrialEnd::kNone;
    NoteOutcome(index, trial);
    trial.stop_cause = StopCause::kNone;
    trial.pause_cause = PauseCause::kNone;
    trial.stop_reason.clear();
    trial.pause_reason.clear();
    trial.reason.clear();
    trial.error = {};
    trial.ended_at = 0;
    trial.runs.failures = 0;
    trial.runs.losses_in_row = 0;
    trial.runs.excused = trial.runs.hangs = 0;
    trial.runs.excluded.clear();
    AddIfWanted(state().experiments.at(e.trial.experiment), trial);
  }

  void operator()(const event::TrialCreated& e) {
    Experiment& experiment = state().experiments.at(e.trial.experiment);
    RT_CHECK(experiment.trials.size() == e.trial.number);
    Trial trial;
    trial.id = e.trial;
    trial.params = e.params;
    trial.bracket = e.bracket;
    trial.name = e.name;
    trial.directory = e.directory;
    trial.resources = e.resources;
    trial.normal_resources = e.normal_resources;
    trial.spec_format = e.spec_format;
    trial.created_at = at;
    experiment.trials.push_back(std::move(trial));
    ExperimentIndex& index = world.index.experiments.at(e.trial.experiment);
    index.pending.insert(e.trial.number);
    TakeOwn(index, experiment.trials.back());
    AddIfWanted(experiment, experiment.trials.back());
  }
  void operator()(const event::TrialStopRequested& e) {
    Trial& trial = TrialOf(e.trial);
    trial.stop_cause = e.cause;
    trial.stop_reason = e.reason;
    NotePaused(world.index.experiments.at(e.trial.experiment), trial);
    RemoveReady(world, Owner::Of(e.trial));
    ReleaseThrottled(world, e.trial.experiment);
  }
  void operator()(const event::TrialEnded& e) {
    Trial& trial = TrialOf(e.trial);
    RT_CHECK(trial.end == TrialEnd::kNone && trial.runs.live() == nullptr);
    trial.end = e.end;
    trial.reason = e.reason;
    trial.error = e.error;
    trial.ended_at = at;
    trial.open_clone = {};
    ExperimentIndex& index = world.index.experiments.at(e.trial.experiment);
    index.pending.erase(e.trial.number);
    NotePaused(index, trial);
    NoteEnd(index, trial);
    RemoveReady(world, Owner::Of(e.trial));
    ReleaseThrottled(world, e.trial.experiment);
  }

  void operator()(const event::AttemptPlaced& e) {
    const Owner& owner = e.attempt.owner;
    Runs& runs = RunsOf(owner);
    RT_CHECK(runs.live() == nullptr && e.attempt.number >= runs.next_attempt);
    Attempt attempt = NewAttempt(e.attempt, e.members, e.checkpoint, at);
    attempt.start_after = e.start_after;
    attempt.ranks = e.ranks;
    runs.next_attempt = e.attempt.number + 1;
    RemoveReady(world, owner);
    PolicyOf(owner).apply_placed(world, e, at);
    Occupy(world, e.attempt, attempt);
    AddAttempt(runs, std::move(attempt));
  }
  void operator()(const event::AttemptStarted& e) {
    Attempt& live = LiveOf(world, e.attempt);
    live.pids.at(e.rank) = e.pid;
    if (live.started_at == 0) live.started_at = at;
  }
  void operator()(const event::PreemptionRequested& e) { ApplyPreemption(world, e); }
  void operator()(const event::AttemptFreezeRequested& e) { RequestFreeze(world, e, at); }
  void operator()(const event::AttemptFrozen& e) { ApplyFrozen(world, e, at); }
  void operator()(const event::AttemptThawed& e) { ApplyThawed(world, e, at); }
  void operator()(const event::AttemptFreezeGivenUp& e) { GiveUpFreeze(world, e); }
  void operator()(const event::AttemptResizeRequested& e) { RequestResize(world, e, at); }
  void operator()(const event::AttemptResizeForced& e) { ForceResize(world, e); }
  void operator()(const event::AttemptResizeGivenUp& e) { GiveUpResize(world, e); }
  void operator()(const event::AttemptResized& e) { ApplyResized(world, e, at); }
  void operator()(const event::ProfileRecorded& e) { ApplyProfile(world, e, at); }
  void operator()(const event::SizesAnswered&) {}
  void operator()(const event::PortAgreed& e) { LiveOf(world, e.attempt).port = e.port; }
  void operator()(const event::RankExited& e) { AddExit(world, e); }
  void operator()(const event::AttemptEnded& e) { ApplyEnd(world, e, at); }
  void operator()(const event::ReportsAccepted& e) { ApplyRows(world, e, seq); }
  void operator()(const event::CheckpointShardCommitted& e) { ApplyShard(world, e); }
  void operator()(const event::CheckpointCommitted& e) { ApplyCheckpoint(world, e, at); }
  void operator()(const event::DriverAttached& e) {
    Experiment& experiment = state().experiments.at(e.experiment);
    RT_CHECK(e.session == experiment.drivers.size() + 1);
    experiment.drivers.push_back(e.driver);
  }
  void operator()(const event::DriverAnswered& e) {
    Experiment& experiment = state().experiments.at(e.experiment);
    RT_CHECK(e.observed_through > experiment.answered_seq);
    DecideRows(experiment, e.observed_through);
  }
  // Rows that became known up to there are decided.
  void DecideRows(Experiment& experiment, uint64_t through) {
    experiment.answered_seq = through;
    for (Trial* trial : TrialsWithAttempts(world, experiment)) {
      Attempt& live = *trial->runs.live();
      std::erase_if(live.undecided, [&](const RowMark& mark) {
        if (mark.event_seq > through) return false;
        live.decided_seq = mark.row_seq;
        return true;
      });
    }
  }
  void operator()(const event::Answered& e) {
    Experiment& experiment = state().experiments.at(e.experiment);
    if (e.session != 0 && e.observed_through > experiment.answered_seq)
      DecideRows(experiment, e.observed_through);
    for (const CreatedTrial& c : e.created)
      (*this)(event::TrialCreated{{e.experiment, c.number}, c.params, c.bracket, c.name,
                                  c.directory, c.resources, c.normal_resources, c.spec_format});
    for (const StoppedTrial& stopped : e.stopped)
      (*this)(event::TrialStopRequested{{e.experiment, stopped.number}, stopped.cause,
                                        stopped.reason});
    for (const SuspendedTrial& paused : e.paused)
      (*this)(event::TrialPaused{{e.experiment, paused.number}, PauseCause::kScheduler,
                                 paused.reason});
    for (uint32_t number : e.resumed) (*this)(event::TrialResumed{{e.experiment, number}});
    for (const ClonedTrial& clone : e.cloned) ApplyClone(world, e.experiment, clone, at);
    ApplyAnswer(world, e, seq);
    if (e.finished) experiment.search_finished = true;
    experiment.fallback_trials += static_cast<uint32_t>(e.fallbacks.size());
    if (!e.fallbacks.empty()) experiment.fallback_reason = e.fallbacks.back().reason;
  }
  void operator()(const event::StopKeyReported& e) {
    std::vector<std::string>& keys = state().experiments.at(e.experiment).keys_reported;
    keys.insert(std::lower_bound(keys.begin(), keys.end(), e.key), e.key);
  }
  void operator()(const event::SearchFinished& e) {
    state().experiments.at(e.experiment).search_finished = true;
  }
  void operator()(const event::RungRecorded& e) {
    Trial& trial = TrialOf(e.trial);
    RT_CHECK(trial.milestones.insert(e.milestone).second);
    trial.open_clone = {};  // It is compared anew.
    std::vector<Rung>& rungs = state().experiments.at(e.trial.experiment).rungs;
    auto rung = std::find_if(rungs.begin(), rungs.end(), [&](const Rung& r) {
      return r.bracket == e.bracket && r.milestone == e.milestone;
    });
    if (rung == rungs.end())
      rung = rungs.insert(rungs.end(), {.bracket = e.bracket, .milestone = e.milestone});
    ++rung->recorded;
    if (e.stopped) ++rung->stopped;
    if (e.attempt != 0)
      rung->entries.push_back({e.trial.number, e.value, e.attempt, e.row, e.resizes});
    if (std::isnan(e.value)) return;
    rung->values.insert(std::upper_bound(rung->values.begin(), rung->values.end(), e.value),
                        e.value);
  }

  void operator()(const event::CheckpointStored& e) {
    std::vector<NodeId> nodes = std::exchange(CheckpointOf(e.owner, e.checkpoint).replicas, {});
    CountReplicas(world, nodes, -1);
  }
  void operator()(const event::CheckpointReplicaLost& e) {
    if (std::erase(CheckpointOf(e.owner, e.checkpoint).replicas, e.node) != 0)
      CountReplicas(world, {e.node}, -1);
  }
  void operator()(const event::CheckpointReleased&) {}
  void operator()(const event::OutputsKept& e) { ApplyOutputs(world, e, at); }
  void operator()(const event::CheckpointRetired& e) {
    Runs& runs = RunsOf(e.owner);
    const Checkpoint& newest = runs.checkpoints.back();
    if (newest.id == e.checkpoint && !IsReachable(state(), newest))
      runs.lost_for += runs.InNewest();
    CountReplicas(world, CheckpointOf(e.owner, e.checkpoint).replicas, -1);
    std::erase_if(runs.checkpoints,
                  [&](const Checkpoint& checkpoint) { return checkpoint.id == e.checkpoint; });
  }
};

}  // namespace

void Apply(World& world, const Record& record) {
  RT_CHECK(record.seq == world.state.seq + 1);
  std::visit(Applier{world, record.at, record.seq}, record.event);
  NoteDriverRecord(world, record.event, record.seq);
  NoteSessionRecord(world, record.event, record.seq);
  world.state.seq = record.seq;
  world.state.time = std::max(world.state.time, record.at);
}

}  // namespace rt
