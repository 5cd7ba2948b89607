// What the auditor knows of each thing in the cluster, by the events alone: a book for each node,
// machine, owner, trial and experiment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "head/core/core.h"
#include "tests/sim/audited_spec.h"
#include "tests/sim/sim.h"

namespace rt::sim {

struct AuditorBooks {
  struct NodeBook {
    NodeInventory inventory;
    bool ready = false, lost = false, gone = false, draining = false;
    bool was_ready = false;  // Once.
    bool by_hand = false;    // A person drained it.
    Millis away_until = 0;   // Its daemon announced to be back by then.
    Millis drain_until = 0;  // What such a node runs after this is ended; 0: nothing.
    Resources used;
    std::map<uint32_t, int64_t> gpus;  // By index: units that are promised.
    std::set<AttemptId> live;
    std::set<AttemptId> claims;  // Attempts that are to grow here.
    uint64_t machine = 0;
    Millis busy_at = 0;                    // When an attempt ended here last, or it joined.
    std::map<std::string, Millis> faulty;  // Gpus that are to be quarantined, and since when.
  };
  struct MachineBook {
    std::string pool;
    uint64_t request = 0;
    std::string id;
    NodeId node;
    bool released = false;
  };
  using RunOrder = std::pair<uint32_t, uint32_t>;  // Attempt and generation.
  static RunOrder OrderOf(const AttemptId& id) { return {id.number, id.generation}; }
  struct CheckpointBook {
    uint64_t id = 0;
    RunOrder run;  // That saved it.
    uint64_t seq = 0;
    double iteration = 0;
    std::string manifest;
    std::vector<std::string> shards;
    std::optional<double> score;
    bool retired = false;
    std::set<NodeId> replicas;  // Until it is in the store.
  };
  struct KeptRow {
    RunOrder run;
    uint64_t seq = 0;
    double iteration = 0;
    std::optional<double> loss;
  };
  struct OwnerBook {
    AuditedAsks asks;
    uint32_t port = 0;            // Where its ranks meet.
    std::vector<RankExit> exits;  // Of several ranks, in order.
    uint32_t number = 0;          // Of the newest attempt.
    uint32_t generation = 1;
    bool live = false;
    std::vector<Member> members;
    std::vector<Member> next_members;  // Of the next generation, while a resize is under way.
    Millis save_by = 0;
    bool forced = false;
    Millis begun_at = 0;  // Its generation.
    // The generation was asked to save for a resize, when it had saved this row.
    std::optional<uint64_t> resize_after;
    std::set<uint32_t> started;
    uint64_t begun_from = 0;  // A checkpoint.
    double base_iteration = 0;
    // Where a driver schedules: the newest attempt's rows by the record that made them known.
    std::map<uint64_t, uint64_t> known_rows;
    uint64_t decided_seq = 0;
    uint32_t failures = 0;
    AttemptOutcome last_outcome = AttemptOutcome::kNone;
    std::vector<CheckpointBook> checkpoints;
    uint64_t next_checkpoint = 1;
    bool replaced = false;   // The trial continues from another one's checkpoint.
    uint64_t saved_seq = 0;  // Rows of the newest attempt, by its checkpoints, kept or not.
    RunOrder outputs_of;     // The attempt whose outputs are kept; 0: none.
    std::map<uint32_t, std::string> outputs;  // Manifests by rank.
    bool stop_requested = false;
    bool over = false;
    bool paused = false;      // Not to run.
    bool suspending = false;  // The live attempt was asked to save and end.
    std::map<std::pair<uint64_t, uint32_t>, std::string> shards;  // By (row, rank): manifests.
    std::set<NodeId> excluded, hung_on;
    uint64_t hangs = 0, preflights_lost = 0;  // Of the latter those in a row.
    bool must_fail = false;                   // A retry rule said so.
    // Frozen: it is not `live`, and it is its owner's attempt.
    bool freezing = false, frozen = false;
    uint32_t freeze_round = 0;
    bool evicting = false;  // Since it was placed a node of it has begun to drain.
  };
  struct ExecutorBook {
    OwnerBook runs;
    TruthSession session;
    AttemptId opener;
    bool detached = false;
    std::string actor;
    int64_t max_restarts = 0;
    Millis started_at = 0;        // Its newest attempt; 0: it has not.
    uint64_t quick_failures = 0;  // In a row.
    Millis failed_at = 0;         // The newest of them,
    bool is_delayed = false;      // and whether a pause was announced since.
    bool has_raised = false;      // Its constructor, in a process that has failed.
  };
  struct CloneQuestion {
    uint64_t seq = 0;  // Of the record that asks.
    uint32_t from = 0;
    std::string params;
  };
  struct TrialBook {
    OwnerBook runs;
    uint32_t bracket = 0;
    StopCause cause = StopCause::kNone;
    std::map<double, double> rungs;  // Milestone -> value.
    std::vector<KeptRow> kept;       // Of rank 0, without those that a restart superseded.
    std::vector<Row> batch_rows;     // Kept in this transaction, to be judged at its end.
    std::vector<std::pair<double, double>> batch_rungs;  // Recorded in it: milestone, value.
    std::set<double> before;                             // Recorded before this transaction.
    bool must_stop = false, may_stop = false;
    TrialEnd end = TrialEnd::kNone;
    bool discarded = false;     // A row was settled and not kept.
    bool reached_end = false;   // A kept row met max_t or the stop rule.
    bool lacks_metric = false;  // A kept row has no loss, which is an error.
    std::string params;
    std::string resources, allocation;      // JSON: that it has; that its driver gives it.
    std::map<double, double> curve;         // By time, of the rows that count; for the median rule.
    bool held = false;                      // Paused by the scheduler, at its highest rung.
    std::optional<bool> gate;               // As GateAt said when it came to its highest rung.
    std::set<double> promoted;              // The rungs that it may continue from.
    size_t exploited = 0;                   // The comparison after which it was cloned last.
    std::optional<CloneQuestion> question;  // To its driver.
    bool reallocating = false;              // Paused to get other resources.
    bool must_pause = false;                // Others wait for the nodes that it has.
    double best_counted_to = 0;  // The last step that was reported, with a loss or without.
  };
  struct ExperimentBook {
    AuditedSpec spec;
    JobId job;
    StopCause cause = StopCause::kNone;
    Millis started_at = 0;
    std::vector<TrialBook> trials;
    std::map<std::pair<uint32_t, double>, std::vector<double>> rungs;
    bool stop_requested = false, finishing = false, finished = false, paused = false;
    Millis budget_paused_at = 0, budget_paused_total = 0;
    uint64_t session = 0, answered = 0;
    bool search_finished = false;
    bool search_over = false;  // Only retried trials run, or ran last.
    StopCause search_cause = StopCause::kNone;
    std::set<std::string> keys_reported;  // Of stop_keys.
    int live = 0;
    uint64_t failed_trials = 0;
    uint64_t unsaved_pauses = 0;
    std::vector<double> best_losses;  // Three at most, less is better; where best_std is given.
    int best_agreed = 0;              // Results in a row after which they agree,
    bool best_ended = false;          // and that they ended the search.
    // By record, what was recorded at rungs: trial, milestone and value. Of models that read it.
    std::map<uint64_t, std::tuple<uint32_t, double, double>> rung_log;
    // By bracket and milestone: the trials there in their order, with their values.
    std::map<std::pair<uint32_t, double>, std::vector<std::pair<uint32_t, double>>> members;
  };
  struct JobBook {
    OwnerBook runs;
    bool over = false;
  };
  // What a placed attempt starts from.
  struct Start {
    double iteration = 0;
    std::string manifest;
    std::vector<std::string> shards;
    std::vector<Member> members;
    RunOrder run;  // That saved the checkpoint, after its report `seq`; {}: there is none.
    uint64_t seq = 0;
    std::string params;  // Of a trial.
  };
};

}  // namespace rt::sim
