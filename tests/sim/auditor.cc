#include "tests/sim/auditor.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rt::sim {
namespace {

// How late an awake head may notice that a time budget ran out: ticks queue behind slow appends.
constexpr Millis kBudgetSlack = 3'000;

}  // namespace

void Auditor::Must(bool ok, const char* rule) const {
  if (ok) return;
  std::string what = "auditor: not legal: ";
  what += rule;
  if (record_ != nullptr) {
    what += " (record " + std::to_string(record_->seq) + ", " + EventName(record_->event) + ")";
  }
  Fail(what);
}

void Auditor::See(const std::vector<Record>& records, const std::vector<RowBatch>& rows,
                  const Truth& truth) {
  truth_ = &truth;
  rows_ = &rows;
  next_rows_ = 0;
  for (const Record& record : records) {
    record_ = &record;
    Must(record.seq == seq_ + 1, "sequence numbers are dense");
    Must(record.at >= at_, "time never goes back");
    seq_ = record.seq;
    at_ = record.at;
    std::visit([this](const auto& e) { On(e); }, record.event);
    NoteElastic();
  }
  Must(next_rows_ == rows.size(), "rows come only with a ReportsAccepted");
  EndTransaction();
  record_ = nullptr;
}

// --- look-ups -----------------------------------------------------------------------------------

Auditor::NodeBook& Auditor::NodeOf(NodeId id) {
  Must(nodes_.contains(id), "the node is known");
  return nodes_.at(id);
}
Auditor::ExperimentBook& Auditor::ExperimentOf(ExperimentId id) {
  Must(experiments_.contains(id), "the experiment is known");
  return experiments_.at(id);
}
Auditor::TrialBook& Auditor::TrialOf(TrialId id) {
  ExperimentBook& experiment = ExperimentOf(id.experiment);
  Must(id.number < experiment.trials.size(), "the trial is known");
  return experiment.trials[id.number];
}
Auditor::OwnerBook& Auditor::OwnerOf(const Owner& owner) {
  if (owner.is_trial()) return TrialOf(owner.trial()).runs;
  if (owner.is_executor()) return ExecutorOf(owner.executor()).runs;
  Must(owner.is_job() && jobs_.contains(owner.job()), "the owner is known");
  return jobs_.at(owner.job()).runs;
}
Auditor::OwnerBook& Auditor::LiveOf(const AttemptId& attempt) {
  OwnerBook& owner = OwnerOf(attempt.owner);
  Must((owner.live || owner.frozen) && owner.number == attempt.number &&
           owner.generation == attempt.generation,
       "nothing is accepted from an attempt that is not the live one");
  return owner;
}
uint64_t Auditor::Accepted(const Fence& fence) const {
  auto it = accepted_.find(fence);
  return it == accepted_.end() ? 0 : it->second;
}

// --- head, tokens, nodes ------------------------------------------------------------------------

void Auditor::On(const event::HeadStarted& e) {
  Must(e.epoch == epoch_ + 1, "epochs grow by one");
  epoch_ = e.epoch;
  head_seq_ = record_->seq;
  head_at_ = at_;
}
void Auditor::On(const event::HeadRolledBack&) {
  Must(false,
       "no head lacks a record that a worker heard of");  // Here journals are shipped in sync mode.
}
void Auditor::On(const event::TokenCreated& e) {
  Must(tokens_seen_.insert(e.token).second, "a token is created once");
  Must(e.role == "worker" || !e.name.empty(), "a person's token is bound to a name");
  tokens_[e.token] = e;
}
void Auditor::On(const event::TokenUsed& e) {
  Must(tokens_.contains(e.token), "only a usable token is used, and once");
  Must(tokens_[e.token].expires_at > at_, "an expired token is not used");
  joining_as_ = tokens_[e.token].name;
  joining_machine_ = tokens_[e.token].machine;
  Must(joining_machine_ == 0 || IsLiveMachine(joining_machine_),
       "only a machine that is wanted joins");
  tokens_.erase(e.token);
}
void Auditor::On(const event::TokenRevoked& e) {
  Must(tokens_.erase(e.token) == 1, "only a usable token is revoked");
}
void Auditor::On(const event::NodeJoined& e) {
  Must(e.node.value > newest_node_, "node numbers grow");
  Must(joining_as_.empty() || e.name == joining_as_, "a node gets the name of its token");
  Must(e.machine == joining_machine_, "a node is the machine of its token");
  newest_node_ = e.node.value;
  nodes_[e.node] = {.machine = e.machine, .busy_at = at_};
  joining_machine_ = 0;
  if (e.machine == 0) return;
  const NodeId before = std::exchange(machines_.at(e.machine).node, e.node);
  Must(before.value == 0 || nodes_.at(before).gone, "a machine is one node at a time");
}
void Auditor::On(const event::NodeReady& e) {
  NodeBook& node = NodeOf(e.node);
  Must(!node.gone, "a node that is gone stays gone");
  Must(e.inventory.incarnation >= node.inventory.incarnation,
       "a daemon that has a successor is not heard any more");
  node.ready = node.was_ready = true;
  node.lost = false;
  node.away_until = 0;
  node.inventory = e.inventory;
  NoteQuarantines(node);
}
void Auditor::On(const event::NodeLost& e) {
  NodeBook& node = NodeOf(e.node);
  Must(node.ready && !node.gone, "only a ready node is lost");
  Must(node.live.empty(), "a lost node's attempts have ended before");
  lost_nodes_.insert(e.node);
  Must(!calm_, "no node is lost once the faults are over");
  Must(at_ >= node.away_until, "a node that announced to be away keeps its lease until then");
  Must(e.seen_at <= at_, "what was heard of a node was heard before");
  node.away_until = 0;
  node.ready = false;
  node.lost = true;
  node.draining = node.by_hand;
}
void Auditor::On(const event::NodeGone& e) {
  NodeBook& node = NodeOf(e.node);
  Must(!node.gone, "a node goes once");
  const std::string id = std::to_string(e.node.value);
  Must(truth_->asked.contains("remove " + id) ||
           (node.lost && truth_->asked.contains("forget " + id)) || MayLeave(e.node, node),
       "a node goes because it or its machine was removed, or because a person forgot it while it "
       "was lost");
  Must(node.live.empty(), "a gone node's attempts have ended before");
  lost_nodes_.insert(e.node);
  std::erase_if(slow_links_, [&](const auto& link) {
    return link.first.first == e.node || link.first.second == e.node;
  });
  node.gone = true;
  node.ready = false;
}

// --- jobs and experiments -----------------------------------------------------------------------

void Auditor::On(const event::JobSubmitted& e) {
  Must(e.job.value > newest_job_, "job numbers grow");
  newest_job_ = e.job.value;
  Must(e.request_key.empty() || keys_.insert({e.owner, e.request_key}).second,
       "a user's request key acts once");
  jobs_[e.job].runs.asks = AuditedSpec::FromJob(e.spec).asks;
}
void Auditor::On(const event::JobStopRequested& e) {
  OwnerBook& runs = OwnerOf(Owner::Of(e.job));
  Must(!runs.over && !runs.stop_requested, "a job is asked to stop once, while it is open");
  Must(truth_->stops.contains(Owner::Of(e.job)), "somebody asked the job to stop");
  runs.stop_requested = true;
  // At once: somebody may reopen one of them in the same batch.
  for (const auto& [id, experiment] : experiments_)
    Must(experiment.job != e.job || experiment.stop_requested || experiment.finishing,
         "who stops a job stops its experiments");
}
void Auditor::On(const event::JobEnded& e) {
  OwnerBook& runs = OwnerOf(Owner::Of(e.job));
  Must(!runs.over, "a job ends once");
  Must(!runs.live, "a job that ended has no live attempt");
  Must(e.end != JobEnd::kNone, "a job ends somehow");
  Must(e.end != JobEnd::kStopped || runs.stop_requested, "only who was asked is STOPPED");
  Must(e.end != JobEnd::kSucceeded || runs.last_outcome == AttemptOutcome::kSucceeded,
       "a job succeeds when its driver did");
  Must(e.end != JobEnd::kFailed || runs.last_outcome == AttemptOutcome::kFailed ||
           runs.last_outcome == AttemptOutcome::kLaunchFailed,
       "a job fails by its own fault: one that was lost is started again");
  runs.over = true;
}
void Auditor::On(const event::ExperimentCreated& e) {
  Must(e.experiment.value > newest_experiment_, "experiment numbers grow");
  newest_experiment_ = e.experiment.value;
  Must(e.request_key.empty() || keys_.insert({e.owner, e.request_key}).second,
       "a user's request key acts once");
  Must(results_dirs_.insert(e.results_dir).second, "no two experiments share a directory");
  ExperimentBook& experiment = experiments_[e.experiment];
  experiment.spec = AuditedSpec::FromExperiment(e.spec);
  experiment.job = e.job;
  Must(e.job.value == 0 || !OwnerOf(Owner::Of(e.job)).stop_requested,
       "a job that was asked to stop gets no new experiment");
  Must(!IsOver(e.job), "a job that is over gets no new experiment");
}
void Auditor::On(const event::ExperimentStopRequested& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  Must(!experiment.finishing && !experiment.stop_requested, "asked to stop once, while it is open");
  const Millis budget = experiment.spec.time_budget;
  switch (e.cause) {
    case StopCause::kUser:
      Must(truth_->experiment_stops.contains(e.experiment) ||
               (experiment.job.value != 0 && truth_->stops.contains(Owner::Of(experiment.job))),
           "somebody asked the experiment or its job to stop");
      break;
    case StopCause::kBudget:
      Must(budget > 0 && experiment.started_at > 0 &&
               at_ >= experiment.started_at + experiment.budget_paused_total + budget,
           "the time budget ran out");
      Must(experiment.budget_paused_at == 0, "a clock that stands still runs out of nothing");
      break;
    case StopCause::kExperiment:
      Must(!experiment.search_over, "retried trials end no search");
      CheckBreaker(experiment);
      break;
    case StopCause::kRule:
      Must(truth_->advised_ends.contains(e.experiment) || experiment.best_ended,
           "its driver ended the experiment, or its best results agree");
      break;
    case StopCause::kNone:
    case StopCause::kEarly:
    case StopCause::kMaxT:
    case StopCause::kMetric:
      Must(false, "no cause that stops an experiment");
  }
  experiment.stop_requested = true;
  experiment.cause = e.cause;
}
void Auditor::On(const event::ExperimentFinishing& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  Must(!experiment.finishing, "an experiment finishes once");
  experiment.finishing = true;
  if (experiment.budget_paused_at == 0) experiment.budget_paused_at = at_;
  for (const TrialBook& trial : experiment.trials) {
    Must(trial.runs.over, "every trial of a finishing experiment has ended");
  }
  Must(experiment.stop_requested || experiment.search_finished || experiment.search_over ||
           experiment.trials.size() == experiment.spec.trials_total,
       "an experiment that nobody stopped has all its trials");
  const bool all_failed =
      !experiment.trials.empty() && experiment.failed_trials == experiment.trials.size();
  // What ended the search, not what its retried trials did.
  const StopCause cause = experiment.search_over ? experiment.search_cause : experiment.cause;
  const bool by_order = cause == StopCause::kUser || cause == StopCause::kBudget;
  const ExperimentEnd end = by_order ? ExperimentEnd::kStopped
                            : cause == StopCause::kExperiment || all_failed
                                ? ExperimentEnd::kFailed
                                : ExperimentEnd::kCompleted;
  Must(e.end == end, "the experiment ends as what ended its search says");
}
void Auditor::On(const event::ExperimentFinished& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  Must(experiment.finishing && !experiment.finished,
       "an experiment is finished once, after it was finishing");
  experiment.finished = true;
}

// --- attempts -----------------------------------------------------------------------------------

void Auditor::On(const event::AttemptPlaced& e) {
  OwnerBook& owner = OwnerOf(e.attempt.owner);
  Must(!owner.live && !owner.frozen, "one live attempt per owner");
  Must(!owner.over, "what is over does not run again");
  Must(!owner.stop_requested, "what was asked to stop is not started again");
  Must(!owner.paused, "what is paused is not started");
  Must(e.attempt.number > owner.number && e.attempt.generation == 1, "attempt numbers grow");
  if (e.attempt.owner.is_executor()) CheckExecutorPlaced(e);
  CheckGang(e, owner.asks);
  owner.live = true;
  owner.members = e.members;
  CheckAvoided(e, owner);
  if (e.start_after.owner.kind != Owner::Kind::kNone) {
    CheckBackfill(e, owner);
  } else {
    for (const Member& member : e.members)
      Take(member, e.attempt, owner.asks.bundles[member.rank]);
  }
  Begin(owner, e.attempt, e.checkpoint);
  if (e.attempt.owner.is_trial()) CheckStart(e.attempt.owner.trial());
}
// A generation of it begins on its members.
void Auditor::Begin(OwnerBook& owner, const AttemptId& attempt, uint64_t checkpoint) {
  owner.number = attempt.number;
  owner.generation = attempt.generation;
  owner.begun_at = at_;
  owner.suspending = owner.evicting = owner.forced = owner.replaced = false;
  owner.freezing = owner.frozen = false;
  owner.freeze_round = 0;
  owner.resize_after.reset();
  owner.saved_seq = owner.decided_seq = 0;
  owner.started.clear();
  owner.begun_from = checkpoint;
  owner.port = 0;
  owner.exits.clear();
  owner.shards.clear();
  owner.known_rows.clear();
  const CheckpointBook* newest = owner.checkpoints.empty() ? nullptr : &owner.checkpoints.back();
  Must(newest == nullptr ? checkpoint == 0 : checkpoint == newest->id,
       "an attempt goes on from the newest committed checkpoint");
  Must(newest == nullptr || !newest->retired, "a retired checkpoint is not used");
  Must(newest == nullptr || IsWithin(*newest),
       "no attempt starts from a checkpoint that only lost nodes have");
  abandoned_.erase(attempt.owner);
  owner.base_iteration = newest == nullptr ? 0 : newest->iteration;
  const bool is_trial = attempt.owner.is_trial();
  starts_[attempt] = {owner.base_iteration,
                      newest == nullptr ? "" : newest->manifest,
                      newest == nullptr ? std::vector<std::string>{} : newest->shards,
                      owner.members,
                      newest == nullptr ? RunOrder{} : newest->run,
                      newest == nullptr ? 0 : newest->seq,
                      is_trial ? TrialOf(attempt.owner.trial()).params : ""};
}
void Auditor::CheckLaunch(const LaunchSpec& body, const Truth& truth) const {
  auto start = starts_.find(body.fence.attempt);
  Must(start != starts_.end(), "only what was placed is started");
  Must(body.iteration_base == start->second.iteration &&
           body.checkpoint == start->second.manifest &&
           body.checkpoint_shards == start->second.shards,
       "a rank starts from the checkpoint of its placement");
  Must(!body.fence.attempt.owner.is_trial() || body.params == start->second.params,
       "a trial starts with its configuration");
  CheckMeeting(body);
  Must(body.checkpoint.empty() || truth.manifests.contains(body.checkpoint) ||
           (body.checkpoint_on_replicas && truth.copies.contains(body.checkpoint)),
       "the bytes of the checkpoint are there");
}
// Rows after the checkpoint are superseded: they will be reported again.
void Auditor::Supersede(TrialBook& trial) const {
  std::pair<RunOrder, uint64_t> from;
  if (const auto& checkpoints = trial.runs.checkpoints; !checkpoints.empty())
    from = {checkpoints.back().run, checkpoints.back().seq};
  auto& kept = trial.kept;
  while (!kept.empty() && std::pair{kept.back().run, kept.back().seq} > from) kept.pop_back();
}
// Its trial's newest attempt has just been placed.
void Auditor::CheckStart(TrialId id) {
  TrialBook& trial = TrialOf(id);
  ExperimentBook& experiment = ExperimentOf(id.experiment);
  Supersede(trial);
  const Millis budget = experiment.spec.time_budget;
  Must(!experiment.paused && !experiment.finishing, "only an open search starts trials");
  if (experiment.started_at == 0) experiment.started_at = at_;
  const Millis may_know = std::max(experiment.started_at + experiment.budget_paused_total + budget,
                                   truth_->head_awake_since);
  Must(budget == 0 || experiment.search_over || at_ <= may_know + kBudgetSlack,
       "nothing starts after the time budget");
  ++experiment.live;
  Must(experiment.spec.max_concurrent == 0 || experiment.live <= experiment.spec.max_concurrent,
       "max_concurrent holds");
  CheckFirst(id);
}
void Auditor::On(const event::AttemptStarted& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  Must(e.rank < owner.asks.ranks, "the rank exists");
  Must(owner.started.insert(e.rank).second, "a rank starts once");
  if (e.attempt.owner.is_executor()) ExecutorOf(e.attempt.owner.executor()).started_at = at_;
  if (owner.asks.ranks > 1 && e.attempt.owner.is_trial()) committed_.insert(e.attempt.owner);
}
void Auditor::On(const event::AttemptEnded& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  if (owner.asks.ranks > 1) CheckGangEnd(e, owner);
  else CheckOutcome(e, owner);
  CheckRule(e, owner);
  Must(!owner.replaced || e.outcome == AttemptOutcome::kSuspended ||
           e.outcome == AttemptOutcome::kLost || e.outcome == AttemptOutcome::kStopped,
       "the end of an attempt that was replaced says nothing of its trial");
  const auto next = static_cast<uint32_t>(owner.next_members.size());
  const bool shrinks = next != 0 && next < owner.members.size();
  ReleaseClaims(owner, e.attempt);
  Release(owner, e.attempt);
  if (owner.asks.ranks_max != 0) owner.asks.Resize(owner.asks.ranks_asked);
  else if (shrinks) owner.asks.Resize(next);  // However it ended.
  const bool was_live = owner.live;
  owner.live = owner.frozen = owner.freezing = false;
  if (owner.asks.ranks > 1 && e.attempt.owner.is_trial()) committed_.insert(e.attempt.owner);
  owner.last_outcome = e.outcome;
  if (e.attempt.owner.is_executor()) NoteExecutorEnd(e);
  if (e.attempt.owner.is_trial() && TrialOf(e.attempt.owner.trial()).held && HasNoCheckpoint(owner))
    ++ExperimentOf(e.attempt.owner.trial().experiment).unsaved_pauses;
  const bool own_fault =
      e.outcome == AttemptOutcome::kFailed || e.outcome == AttemptOutcome::kLaunchFailed;
  if (own_fault && !e.excused) ++owner.failures;
  if (e.attempt.owner.is_trial() && was_live)
    --ExperimentOf(e.attempt.owner.trial().experiment).live;
}
void Auditor::CheckOutcome(const event::AttemptEnded& e, const OwnerBook& owner) const {
  Must(e.outcome != AttemptOutcome::kNone, "an attempt ends somehow");
  if (e.outcome == AttemptOutcome::kLost) {
    const bool has_vanished = truth_->vanished.contains(starts_.at(e.attempt).manifest);
    const bool gpu_failed = std::any_of(
        truth_->runs.begin(), truth_->runs.end(),
        [&](const auto& run) { return run.first.attempt == e.attempt && run.second.is_unfit(); });
    const auto frozen = truth_->runs.find({e.attempt, 0});
    const bool was_killed = frozen != truth_->runs.end() && frozen->second.killed_frozen;
    Must(!calm_ || has_vanished || gpu_failed || was_killed,
         "no attempt is lost once the faults are over");
    return;
  }
  if (e.outcome == AttemptOutcome::kWithdrawn) return CheckWithdrawn(e, owner);
  if (e.outcome == AttemptOutcome::kStopped) {
    Must(owner.stop_requested, "somebody asked it to stop");
    return;
  }
  const bool is_moved =
      e.outcome == AttemptOutcome::kSuspended || e.outcome == AttemptOutcome::kPreempted;
  if (owner.frozen && is_moved) return CheckFrozenEnd(e, owner);
  if (e.outcome == AttemptOutcome::kSuspended) {
    Must(owner.suspending, "only who was asked to save and end is suspended");
    auto run = truth_->runs.find({e.attempt, 0});
    // It was never started, as far as anybody knows.
    if (run == truth_->runs.end() || run->second.forgotten) return;
  }
  if (e.outcome == AttemptOutcome::kPreempted) return CheckEvicted({e.attempt, 0}, owner);
  if (e.outcome == AttemptOutcome::kResized) return CheckResizeExit({e.attempt, 0}, owner);
  CheckExit({e.attempt, 0}, e.outcome, owner);
  const size_t reported = truth_->runs.at({e.attempt, 0}).rows.size();
  Must(e.outcome == AttemptOutcome::kLaunchFailed || Accepted({e.attempt, 0}) >= reported,
       "an attempt ends once its reports are accepted");
}
// What is said of a rank's end is what happened.
void Auditor::CheckExit(const Fence& fence, AttemptOutcome outcome, const OwnerBook& owner) const {
  auto it = truth_->runs.find(fence);
  Must(it != truth_->runs.end() && it->second.exited, "what ended by itself did exit");
  const TruthRun& run = it->second;
  if (outcome == AttemptOutcome::kFailed) {
    Must(run.witnessed, "a failure counts only when a living daemon saw it");
    Must(run.exit_code != 0 || run.signal != 0, "a failure is an exit other than 0");
    Must(!run.gpu_failed, "what fails on a gpu that failed is not the trial's failure");
  }
  if (outcome == AttemptOutcome::kLaunchFailed) {
    Must(run.launch_failed && !run.gpu_failed && (!run.untested || owner.preflights_lost > 2),
         "a failed launch, and no preflight but the fourth in a row that fails");
  }
  if (outcome == AttemptOutcome::kSucceeded) {
    Must(run.asked_to_stop || owner.stop_requested || (run.exit_code == 0 && run.signal == 0),
         "a success is exit 0");
  }
}

// --- the end ------------------------------------------------------------------------------------

bool Auditor::IsOver(JobId job) const {
  const auto found = jobs_.find(job);
  return found != jobs_.end() && found->second.runs.over;
}
bool Auditor::AllOver() const {
  for (const auto& [id, job] : jobs_) {
    if (!job.runs.over) return false;
  }
  for (const auto& [id, experiment] : experiments_) {
    if (!experiment.finished) return false;
  }
  return open_executors_.empty();
}
void Auditor::ExpectAllOver() const {
  Must(AllOver(), "everything comes to its end");
  for (const auto& [id, node] : nodes_) {
    Must(node.live.empty() && node.used.IsZero() && node.gpus.empty(),
         "all capacity is free again");
  }
  ExpectQuarantines();
  for (const auto& [id, experiment] : experiments_) {
    for (const TrialBook& trial : experiment.trials) Must(trial.runs.over, "one end per trial");
  }
}
std::string Auditor::Unfinished() const {
  std::string text;
  auto add = [&](const std::string& name, const OwnerBook& runs) {
    if (runs.over) return;
    text += "\n  " + name + " attempt " + std::to_string(runs.number);
    text += runs.live ? " live" : " waiting";
    if (runs.stop_requested) text += " stop requested";
    for (const Member& m : runs.members) text += " on node " + std::to_string(m.node.value);
  };
  for (const auto& [id, job] : jobs_) add("job " + std::to_string(id.value), job.runs);
  for (const auto& [id, executor] : executors_)
    add("executor " + std::to_string(id.value), executor.runs);
  for (const auto& [id, experiment] : experiments_) {
    uint32_t number = 0;
    for (const TrialBook& trial : experiment.trials) {
      add("trial " + ToString(TrialId{id, number++}), trial.runs);
    }
    if (!experiment.finished) {
      text += "\n  experiment " + std::to_string(id.value) +
              (experiment.finishing ? " finishing" : " open") + ", trials " +
              std::to_string(experiment.trials.size());
    }
  }
  return text;
}

}  // namespace rt::sim
