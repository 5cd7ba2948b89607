// What the head knows. State is journalled and changed by Apply only; Soft is empty after a
// restart, and every decision is safe then. Owned by the core thread; knows no clock or lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/spec/curve.h"
#include "common/spec/experiment_plateau.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/job_spec.h"
#include "common/spec/plateau.h"
#include "head/core/attempt.h"
#include "head/core/chosen.h"
#include "head/core/events.h"
#include "head/core/executor.h"
#include "head/core/inputs.h"
#include "head/core/machine.h"
#include "head/core/slow_link.h"
#include "head/core/token.h"

namespace rt {

// Rows that count: up to `seq_to` of each of these generations (0: all of it). A restart and a
// resize cut the generations before at the checkpoint that they resumed from; rows beyond are
// superseded.
struct Segment {
  uint32_t attempt = 0;
  uint64_t seq_to = 0;
  uint32_t resizes = 0;  // As in Checkpoint.
  RT_FIELDS(Segment, attempt, seq_to, resizes);
};

// That a trial took a checkpoint of another one.
struct TrialClone {
  uint32_t from = 0;        // The trial,
  uint64_t checkpoint = 0;  // its checkpoint,
  double iteration = 0;     // and the iteration at which that was saved.
  Millis at = 0;
  std::string params_before;  // JSON: the configuration of the attempts
  uint32_t attempt = 0;       // up to this one.
  RT_FIELDS(TrialClone, from, checkpoint, iteration, at, params_before, attempt);
};

// That the driver is asked about a clone, see event::Answered::asked.
struct OpenClone {
  uint64_t seq = 0;  // Of the record that asks; 0: the driver is asked nothing.
  uint32_t from = 0;
  std::string params;  // JSON.
  RT_FIELDS(OpenClone, seq, from, params);
};

// The resources that its driver gives a trial, see AllocatedTrial. Taken, or replaced by a later
// answer.
struct Allocation {
  std::string resources;  // Empty: none.
  std::string normal_resources;
  uint32_t spec_format = 0;
  RT_FIELDS(Allocation, resources, normal_resources, spec_format);
};

struct Trial {
  TrialId id;
  std::string params;  // JSON.
  uint32_t bracket = 0;
  Runs runs;
  std::vector<Segment> lineage;
  LastReport last;  // Of rank 0, over the lineage.
  uint64_t reports = 0;  // Kept rows of rank 0 over all attempts.
  bool has_best = false;
  double best = 0;
  double best_iteration = 0;
  std::set<double> milestones;  // Already recorded.
  StopCause stop_cause = StopCause::kNone;
  std::string stop_reason;
  TrialEnd end = TrialEnd::kNone;
  std::string reason;
  ErrorInfo error;
  Millis created_at = 0;
  Millis ended_at = 0;
  PauseCause pause_cause = PauseCause::kNone;  // Not kNone: it does not run.
  std::string pause_reason;
  std::string name;       // Empty: by its number.
  std::string directory;  // Empty: its name.
  std::string resources;  // JSON, as its driver asked; empty: as its experiment says.
  std::string normal_resources;  // As TrialCreated has them.
  uint32_t spec_format = 0;
  std::vector<TrialClone> clones;  // The newest limits::kClonesKept.
  uint32_t cloned = 0;             // All of them.
  std::vector<CurvePoint> curve;   // Where its scheduler compares curves.
  PlateauWindow plateau;           // Where its experiment has a plateau rule.
  OpenClone open_clone;
  // The greatest iteration of its rows, where its experiment has a plateau rule. The rule does not
  // count a step again that the trial repeats.
  double plateau_counted_to = 0;
  Allocation allocation;
  RT_FIELDS(Trial, id, params, bracket, runs, lineage, last, reports, has_best, best,
            best_iteration, milestones, stop_cause, stop_reason, end, reason, error, created_at,
            ended_at, pause_cause, pause_reason, name, directory, resources, normal_resources,
            spec_format, clones, cloned, curve, plateau, open_clone, plateau_counted_to,
            allocation);

  // The configuration, as JSON, of that attempt.
  const std::string& ParamsOf(uint32_t attempt) const;
  // Whether it was suspended without a checkpoint: it would begin again.
  bool is_unsaved() const {
    return runs.live() == nullptr && runs.checkpoints.empty() && !runs.attempts.empty() &&
           runs.attempts.back().outcome == AttemptOutcome::kSuspended;
  }
  // Whether the row of rank 0 counts: no restart and no resize has superseded it.
  bool Counts(const AttemptId& run, uint64_t seq) const;
};

// How a search ended whose trials are retried. The search stays finished: only retries run.
struct SearchEnd {
  bool over = false;
  StopCause cause = StopCause::kNone;  // kNone: the algorithm's end.
  ExperimentEnd end = ExperimentEnd::kNone;
  std::string reason;
  RT_FIELDS(SearchEnd, over, cause, end, reason);
};

struct Experiment {
  ExperimentId id;
  std::string owner;
  JobId job;
  std::string spec_text;
  std::string request_key;
  uint64_t seed = 0;
  std::string results_dir;
  std::vector<Trial> trials;  // By number.
  std::vector<Rung> rungs;
  StopCause stop_cause = StopCause::kNone;
  std::string stop_reason;
  ExperimentEnd end = ExperimentEnd::kNone;
  bool finishing = false;  // `end` is known; the result files may be incomplete.
  bool finished = false;   // Terminal.
  uint64_t finishing_seq = 0;
  std::string reason;
  Millis created_at = 0;
  Millis started_at = 0;  // First placement.
  Millis ended_at = 0;
  bool paused = false;  // None of its trials runs.
  std::string pause_reason;
  Millis budget_paused_at = 0;     // Since when it is paused, finishing or only retries; or 0.
  Millis budget_paused_total = 0;  // Earlier such spans; the time budget does not count them.
  bool extended = false;           // The next two replace the spec's.
  int64_t num_samples = 0;
  Millis time_budget = 0;
  uint64_t created_seq = 0;
  std::vector<std::string> drivers;  // By session; the last one answers. Empty: none has attached.
  uint64_t answered_seq = 0;    // The record up to which the drivers have answered.
  bool search_finished = false;
  std::string trainable;    // Replaces the spec's input of that name; empty: the spec's.
  std::string normal_spec;  // As ExperimentCreated has it.
  uint32_t spec_format = 0;
  SearchEnd search;
  std::vector<std::string> keys_reported;  // Of stop rules and the time attribute, ascending.
  uint32_t fallback_trials = 0;            // That got no proposal of the search model,
  std::string fallback_reason;             // and why the newest of them did not.
  uint32_t unsaved_pauses = 0;  // Of its scheduler: so often a trial ended without a checkpoint.
  BestValues best_values;       // Where it has a plateau rule of its own.
  RT_FIELDS(Experiment, id, owner, job, spec_text, request_key, seed, results_dir, trials, rungs,
            stop_cause, stop_reason, end, finishing, finished, finishing_seq, reason, created_at,
            started_at, ended_at, paused, pause_reason, budget_paused_at, budget_paused_total,
            extended, num_samples, time_budget, created_seq, drivers, answered_seq, search_finished,
            trainable, normal_spec, spec_format, search, keys_reported, fallback_trials,
            fallback_reason, unsaved_pauses, best_values);

  // It may create trials: the search was not ended, nor stopped, nor paused.
  bool is_searching() const {
    return !finishing && !paused && !search.over && stop_cause == StopCause::kNone;
  }
};

struct Job {
  JobId id;
  std::string owner;
  std::string spec_text;
  std::string request_key;
  Runs runs;
  std::string stop_reason;
  bool stop_requested = false;
  JobEnd end = JobEnd::kNone;
  int32_t exit_code = 0;
  int32_t signal = 0;
  std::string reason;
  Millis created_at = 0;
  Millis started_at = 0;
  Millis ended_at = 0;
  std::string normal_spec;  // As JobSubmitted has it.
  uint32_t spec_format = 0;
  RT_FIELDS(Job, id, owner, spec_text, request_key, runs, stop_reason, stop_requested, end,
            exit_code, signal, reason, created_at, started_at, ended_at, normal_spec,
            spec_format);
};

struct Node {
  NodeId id;
  std::string name;
  std::string pool;
  NodeInventory inventory;
  bool ready = false;  // Its worker has joined, and it was not lost since.
  bool lost = false;
  bool gone = false;
  bool draining = false;
  std::string drain_reason;
  Millis drain_until = 0;        // 0: no deadline.
  bool drained_by_hand = false;  // Stays so when it is lost and comes back.
  std::string reason;
  Millis joined_at = 0;
  Millis changed_at = 0;
  Millis away_until = 0;  // Its daemon is stopped, and announced to be back by then; 0: it is not.
  Millis seen_at = 0;     // Of a lost node: when it was heard last; 0: unknown.
  uint64_t machine = 0;   // That it runs on; 0: none that the head has asked for.
  std::vector<ClearedGpu> cleared_gpus;  // Ascending by uuid; of those that it lists.
  std::vector<FaultyGpu> faulty_gpus;    // Likewise; until their quarantine has begun.
  RT_FIELDS(Node, id, name, pool, inventory, ready, lost, gone, draining, drain_until, reason,
            joined_at, changed_at, drained_by_hand, drain_reason, away_until, seen_at, machine,
            cleared_gpus, faulty_gpus);

  // Its attempts and replicas count: it is neither lost nor removed.
  bool counts() const { return !lost && !gone; }
};

// What an elastic owner has measured, merged over its attempts (profiles.h).
struct JobProfile {
  AttemptId attempt;  // The newest that measured something,
  uint64_t seq = 0;   // and its newest line that is contained.
  std::string job_class;
  ElasticProfile profile;
  Millis at = 0;  // Of the newest record.
  RT_FIELDS(JobProfile, attempt, seq, job_class, profile, at);
};

// The answer given to a request key, so that a retry gets the same one.
struct Request {
  JobId job;
  ExperimentId experiment;
  uint64_t order = 0;  // For dropping the oldest.
  RT_FIELDS(Request, job, experiment, order);
};

// Derived from the facts below by Apply as well, but kept out of the canonical dump: rebuilt by
// Reindex after a snapshot is loaded. Everything that a decision needs without scanning all trials.
struct ExperimentIndex {
  ExperimentSpec spec;
  std::vector<std::string> warnings;        // What of the journalled spec could not be read.
  bool closed = false;                      // Therefore the head proposes no more trials of it.
  ChosenAlgorithms chosen;
  std::vector<std::string> stop_names;      // Of the values that its stop expression reads.
  std::set<uint32_t> pending;               // Trials that do not run and are not over.
  std::set<uint32_t> live;                  // Trials with a live attempt that is not frozen.
  std::set<uint32_t> paused;  // Of the pending ones, those that its scheduler may resume itself.
  std::map<uint32_t, ResourceRequest> requests;  // Of the trials that ask for something else.
  std::set<std::string> names;              // Names and directories that its driver gave trials.
  uint64_t ready = 0;                       // Trials in Index::ready.
  std::set<uint32_t> throttled;             // They want nodes, but max_concurrent is reached.
  uint64_t completed = 0, stopped = 0, failed = 0;
  std::optional<uint32_t> best_trial;       // By the experiment's metric and mode.
  double best_value = 0;                    // Of best_trial, when it was last looked at.
  uint64_t driver_record_seq = 0;  // The newest record that a driver wants to read, or a later one.
  // Of trials that are over, where the search reads several values of a row: those of
  // spec.OutcomeKeys() in the newest one; empty: it lacks one.
  std::map<uint32_t, std::vector<double>> outcomes;
};
struct JobIndex {
  JobSpec spec;
  std::vector<std::string> warnings;  // As of an experiment.
  std::vector<ExperimentId> experiments;
};
struct NodeIndex {
  Resources used;  // Of the live attempts; may exceed the inventory after it shrank.
  std::map<uint32_t, int64_t> gpus_used;  // By index: units in use; no entry is zero.
  std::set<Fence> attempts;  // Live ones with a member here.
  std::set<Fence> claims;    // Ranks that live attempts are to grow by here; in `used`, too.
  int64_t replica_count = 0;  // Checkpoints that it has until the store does.
  bool listed = false;  // In Index::free, under these keys:
  int64_t listed_gpu = 0, listed_cpu = 0;
};
// The order of the owners that wait for nodes: by priority, then those that have run and were lost,
// evicted or preempted, then by arrival.
struct QueueOrder {
  int behind = 0;  // The priority, negated.
  uint64_t arrival = 0;
  friend auto operator<=>(const QueueOrder&, const QueueOrder&) = default;
};
// Owners that wait for nodes, grouped by what they ask for.
struct ReadyQueue {
  std::map<QueueOrder, Owner> by_order;
};
struct Index {
  std::map<ExperimentId, ExperimentIndex> experiments;
  std::map<JobId, JobIndex> jobs;
  ExecutorIndex executors;
  std::map<NodeId, NodeIndex> nodes;
  std::map<ResourceRequest, ReadyQueue> ready;
  std::map<Owner, QueueOrder> ready_order;
  std::map<AttemptId, AttemptId> backfills;  // By attempt: the one that starts after it; both live.
  std::set<AttemptId> resizing;              // Live ones whose resize is under way.
  std::set<AttemptId> freezes;               // Live ones that are frozen, or are to be.
  std::set<Owner> elastic;                   // Live ones whose size the head changes.
  uint64_t capacity_version = 0;             // Of what is in use, and of what is there.
  uint64_t profiled_attempts = 0;            // That measured something, since the index was made.
  uint64_t next_arrival = 1;
  // Nodes that may take work, by (what one request can have of its gpus, see devices.h, free cpu
  // units): best fit without a scan.
  std::set<std::tuple<int64_t, int64_t, NodeId>> free;
  std::set<ExperimentId> open_experiments;       // Not finishing.
  std::set<ExperimentId> open_models;  // Of these, those whose search or scheduler has a model.
  std::set<ExperimentId> unflushed_experiments;  // Finishing, not finished.
};

struct State {
  Millis time = 0;  // Of the newest event: time never goes back behind it.
  uint64_t seq = 0;  // Of the newest event.
  uint64_t epoch = 0;
  std::string cluster_id;
  std::string cluster_name;
  Millis started_at = 0;
  uint64_t next_experiment = 1, next_job = 1, next_node = 1, next_request = 1;
  std::map<ExperimentId, Experiment> experiments;
  std::map<JobId, Job> jobs;
  std::map<NodeId, Node> nodes;
  std::map<std::string, Token> tokens;  // Usable ones.
  std::map<std::string, Request> requests;
  uint64_t last_machine = 0;  // The greatest number that a machine was given.
  std::map<uint64_t, Machine> machines;
  std::map<std::string, Pool> pools;  // Those whose last request failed, by name.
  // As the newest ResourcesRequested says; none: nothing is asked for (demand.h).
  std::vector<RequestedBundles> requested_bundles;
  std::string requested_by;
  Millis requested_at = 0;
  uint64_t last_executor = 0;  // The greatest number that one was given.
  std::map<ExecutorId, Executor> executors;
  // Ascending by owner; at most limits::kProfilesMax. Also of owners that are over.
  std::vector<JobProfile> profiles;
  std::vector<SlowLink> slow_links;  // The oldest first; at most limits::kSlowLinksMax.
  RT_FIELDS(State, time, seq, epoch, cluster_id, cluster_name, started_at, next_experiment,
            next_job, next_node, next_request, experiments, jobs, nodes, tokens, requests,
            last_machine, machines, pools, requested_bundles, requested_by, requested_at,
            last_executor, executors, profiles, slow_links);
};

// A State with its index: what Step works on.
struct World {
  State state;
  Index index;
};
void Reindex(World& world);  // From the state alone, after a snapshot was loaded.

// Leases, what workers were last seen doing, and what changed for them since.
struct SoftNode {
  bool seen = false;        // Since the head (re)started.
  bool connected = false;
  uint64_t incarnation = 0;
  uint64_t sync_seq = 0;
  Millis last_seen_at = 0;
  Millis lost_at = 0;       // When it becomes LOST if nothing is heard.
  Millis restarts_by = 0;   // Its daemon ended and is started again until then; 0: neither.
  bool zombies = false;     // It still runs an attempt that it should not: no new work.
  std::string fault;        // Why it cannot take work, as its daemon says; empty: it can.
  std::map<Fence, Observed> exits;  // Those whose last rows are not accepted yet.
  // As its last Sync said: ended attempts whose outputs may not be kept yet.
  std::set<Fence> outputs;
  std::vector<GpuSample> gpu_samples;  // Of its last Sync.
  std::map<Fence, GpuUse> gpu_use;     // Of what runs there, so far.
};
// How long a search's trials take, and behind which attempts its next ones can start (backfill.h).
struct BackfillState {
  uint32_t trials = 0;  // That ended by themselves.
  Millis typical = 0;   // How long they ran; the last ones count most.
  std::deque<AttemptId> tails;
};
// Another head, of a later epoch or the same, and a node that has heard it; no node: none.
struct OtherHead {
  NodeId node;
  uint64_t epoch = 0;
};
// A function of the user's in which an experiment's driver is, as it said last.
struct DriverCall {
  std::string function;
  Millis since = 0;
  Millis heard_at = 0;
};
// A daemon of a node that calls although a later one was heard. Its last calls may arrive late; it
// is said once such calls have come for a while.
struct Rival {
  uint64_t incarnation = 0;
  uint64_t sync_seq = 0;
  Millis first_at = 0, heard_at = 0;
};
// When an elastic attempt was last asked for another size, and how often in a row without one.
struct ElasticTry {
  AttemptId attempt;
  Millis at = 0;
  uint32_t fruitless = 0;
};
// What a policy answered last about an elastic owner that runs.
struct ElasticShare {
  AttemptId attempt;
  std::string policy;
  uint32_t ranks = 0;
  double speed_up = 0;  // As in SharedJob.
  double speed_up_more = 0;
};
struct Soft {
  std::vector<Resources> node_types;  // As StartHead said.
  Millis last_step_at = 0;
  std::map<NodeId, SoftNode> nodes;
  std::set<NodeId> dirty;  // Their desired state changed: the loop answers their Sync and clears.
  std::set<std::pair<Millis, NodeId>> deadlines;  // lost_at of the nodes.
  std::map<NodeId, Rival> rivals;
  Millis frozen_at = 0;  // Since then many nodes are silent, and none is called lost; 0: no freeze.
  std::map<ExperimentId, Millis> drivers;  // When each experiment's driver was last heard.
  std::map<ExperimentId, DriverCall> driver_calls;  // Until the driver listens again.
  std::map<SessionKey, Millis> sessions;   // When each session's driver was last heard.
  std::map<ExperimentId, BackfillState> backfill_states;
  uint64_t started_seq = 0;    // Of this head's HeadStarted.
  std::set<NodeId> unheard;    // Nodes from before that of which this head took no Sync yet.
  OtherHead other_head;
  uint64_t forgotten_to = 0;  // The newest record that a worker knows and this head does not; or 0.
  uint64_t records_forgotten() const {
    return forgotten_to == 0 ? 0 : forgotten_to - started_seq + 1;
  }
  std::map<ExperimentId, std::string> results_problems;  // The newest SinksFlushed's.
  std::map<ExperimentId, ModelBelief> beliefs;           // The newest of each search model.
  Millis elastic_interval = limits::kElasticInterval;
  std::map<Owner, ElasticTry> elastic_tries;  // Of elastic owners that run.
  std::map<Owner, ElasticShare> elastic_shares;
  bool try_place = false;  // Something changed since the last placement round.
  Millis links_seen_at = 0;  // Slow links that could be measured anew by then have been considered.
  std::map<Owner, Millis> thaw_waits;     // Of frozen owners that wait for their nodes: since when.
  std::map<std::string, PoolSpec> pools;  // As StartHead said, by name.
  std::optional<uint32_t> max_workers;    // Of all pools together, as it said.
  std::map<NodeId, Millis> idle_since;    // Of nodes by demand that have nothing to do.
  // Where a LogFetcher is: nodes that will be released once their logs are fetched, since when, and
  // those of them whose logs are.
  bool fetches_logs = false;
  std::map<NodeId, Millis> leaving;
  std::set<NodeId> logs_fetched;
};

// Whether the trial has not ended and nothing ends it: no stop was requested.
bool IsOpen(const Trial& trial);
// Whether the trial is to run: nobody has stopped or paused it, and it has not ended.
bool MayRun(const Experiment& experiment, const Trial& trial);
// Whether it waits for nodes: it is to run and does not.
bool WantsNodes(const Experiment& experiment, const Trial& trial);
const Trial* FindTrial(const State& state, TrialId id);
Trial* FindTrial(State& state, TrialId id);
const Runs* FindRuns(const State& state, const Owner& owner);
Runs* FindRuns(State& state, const Owner& owner);
// Of these nodes those that count, each once.
std::vector<NodeId> CountingOf(const State& state, const std::vector<NodeId>& nodes);
// Whether the store has its bytes, or a node that may still serve them.
bool IsReachable(const State& state, const Checkpoint& checkpoint);
// The node that uploads its replica to the store; no node: none can.
NodeId UploaderOf(const State& state, const Checkpoint& checkpoint);
// The nodes with replicas of the checkpoint that the live attempt starts from.
struct ReplicaNodes {
  std::vector<NodeId> nodes;
  bool lost = false;  // No node has it, nor does the store.
};
ReplicaNodes ReplicasFor(const State& state, const AttemptId& attempt);
// The live attempt that the fence names; null when it is stale.
const Attempt* FindLive(const State& state, const AttemptId& id);
// Unavailable when a later daemon of the node has been heard: after a reboot it may have started an
// attempt again whose earlier rows are still on their way. 0: an old worker that does not say.
absl::Status CheckNewestDaemon(const State& state, NodeId node, uint64_t incarnation);

}  // namespace rt
