// What the state knows of the runs of a trial or a job: attempts and their generations,
// checkpoints, and what was kept of their working directories. Part of state.h.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "head/core/facts.h"

namespace rt {

struct Attempt;

struct Checkpoint {
  uint64_t id = 0;  // Counts from 1 within the owner.
  uint32_t attempt = 0;
  std::string manifest;
  uint64_t seq = 0;
  double iteration = 0;
  double time_total_s = 0;
  Bytes bytes = 0;
  bool has_score = false;
  double score = 0;
  Millis committed_at = 0;
  // What the trial knew when it was committed: what it knows again when it resumes from here.
  LastReport last;
  uint64_t reports = 0;
  bool has_best = false;
  double best = 0;
  double best_iteration = 0;
  std::vector<std::string> shards;  // Manifests of the other ranks: its files are those of all.
  std::vector<NodeId> replicas;     // Nodes that have it, until the store does.
  // How often its attempt had been resized: its generation less one, which is 0 in what releases
  // without generations wrote.
  uint32_t resizes = 0;
  RT_FIELDS(Checkpoint, id, attempt, manifest, seq, iteration, time_total_s, bytes, has_score,
            score, committed_at, last, reports, has_best, best, best_iteration, shards, replicas,
            resizes);

  bool is_stored() const { return replicas.empty(); }
  bool IsOf(const Attempt& run) const;  // Whether this generation saved it.
};

// What one rank of a gang has saved, until the checkpoint is complete.
struct CheckpointShard {
  uint32_t rank = 0;
  std::string manifest;
  uint64_t seq = 0;
  double iteration = 0;
  double time_total_s = 0;
  Bytes bytes = 0;
  bool has_score = false;
  double score = 0;
  RT_FIELDS(CheckpointShard, rank, manifest, seq, iteration, time_total_s, bytes, has_score, score);
};

// A record of the journal made the rows up to `row_seq` known.
struct RowMark {
  uint64_t event_seq = 0;
  uint64_t row_seq = 0;
  RT_FIELDS(RowMark, event_seq, row_seq);
};

// What a trial knew at a row that came with a checkpoint, until that is committed.
struct CheckpointRow {
  uint64_t seq = 0;
  LastReport last;
  uint64_t reports = 0;
  bool has_best = false;
  double best = 0;
  double best_iteration = 0;
  RT_FIELDS(CheckpointRow, seq, last, reports, has_best, best, best_iteration);
};

// One generation of a run of a trial or a job, live or past.
struct Attempt {
  uint32_t number = 0;
  uint32_t generation = 1;
  std::vector<Member> members;
  uint32_t ranks = 0;       // As AttemptPlaced says; see RanksOf.
  uint64_t checkpoint = 0;  // What it started from.
  Millis placed_at = 0;
  Millis started_at = 0;           // When its first rank ran.
  Millis ended_at = 0;             // 0 while it is live.
  std::vector<uint64_t> pids;      // By rank; 0 until it runs.
  std::vector<uint64_t> accepted;  // By rank: the last settled seq.
  AttemptOutcome outcome = AttemptOutcome::kNone;
  int32_t exit_code = 0;
  int32_t signal = 0;
  std::string reason;
  bool suspending = false;  // It was asked to save and end, and will, also if its owner is resumed.
  // When a node of it began to drain. A false alarm does not clear it: the attempt may be ending.
  Millis eviction_requested_at = 0;
  uint32_t port = 0;            // Where several ranks meet, on rank 0's node; 0: not agreed.
  std::vector<RankExit> exits;  // Of several ranks, in the order in which they were seen.
  // Where its driver schedules: rank 0's newest decided row, and its undecided ones.
  uint64_t decided_seq = 0;
  std::vector<RowMark> undecided;
  // Ascending by seq; at most limits::kCheckpointRowsMax, while it lives.
  std::vector<CheckpointRow> checkpoint_rows;
  // Of a gang, while it lives: shards of checkpoints that are not complete, by (seq, rank), and the
  // ranks other than 0 that ever reported one.
  std::vector<CheckpointShard> shards;
  std::set<uint32_t> sharding_ranks;
  uint32_t rule = 0;  // As in AttemptEnded.
  // The newest row whose checkpoint was committed with replicas.
  uint64_t replicated_seq = 0;
  // The attempt whose capacity it gets at that one's end; no owner: it has its own.
  AttemptId start_after;
  Resize resize;
  // Its trial continues from a checkpoint of another one: nothing more of this attempt counts.
  bool replaced = false;
  GpuUse gpu;  // Once it has ended.
  Freeze freeze;
  RT_FIELDS(Attempt, number, generation, members, checkpoint, placed_at, started_at, ended_at, pids,
            accepted, outcome, exit_code, signal, reason, suspending, port, exits, decided_seq,
            undecided, checkpoint_rows, eviction_requested_at, shards, sharding_ranks, rule,
            start_after, replicated_seq, ranks, resize, replaced, gpu, freeze);

  uint32_t resizes() const { return generation - 1; }
  // Stopped where it is: it holds memory, and neither cpus nor gpus.
  bool is_frozen() const { return freeze.frozen_at != 0; }
  bool is_growing() const { return resize.members.size() > members.size(); }
  // The members that it is to grow by; they hold capacity already.
  std::vector<Member> Claims() const;

  bool is_backfilled() const { return start_after.owner.kind != Owner::Kind::kNone; }
  // Whether its first rank was ever said to run.
  bool was_heard_of() const { return pids.front() != 0 || accepted.front() != 0; }

  const CheckpointRow* CheckpointRowAt(uint64_t seq) const;
  const CheckpointShard* ShardOf(uint32_t rank, uint64_t seq) const;

  const RankExit* ExitOf(uint32_t rank) const;
  // Of several ranks, whether this one shall run or something is still to come of it. Before a port
  // is agreed only rank 0 is wanted.
  bool IsWanted(uint32_t rank) const;
  // What ends the others; null while there is none.
  const RankExit* FirstFailure() const;
};

// What a rank of the newest attempt that kept something has written.
struct RankOutputs {
  uint32_t attempt = 0;
  uint32_t rank = 0;
  Millis kept_at = 0;
  KeptOutputs kept;
  uint32_t resizes = 0;  // As in Checkpoint.
  RT_FIELDS(RankOutputs, attempt, rank, kept_at, kept, resizes);
};

// What trials and jobs have in common: attempts, of which the last may be live.
struct Runs {
  // Ascending by (number, generation); old ones may be dropped from the front.
  std::vector<Attempt> attempts;
  uint32_t next_attempt = 1;
  uint32_t failures = 0;                // Attempts that failed by their own fault.
  uint32_t losses = 0;                  // Attempts that machines ended.
  uint32_t losses_in_row = 0;           // Since the last one that ended otherwise.
  std::vector<Checkpoint> checkpoints;  // Ascending by id; committed and not retired.
  uint64_t next_checkpoint = 1;
  uint32_t evictions = 0;     // Attempts that ended because a node of theirs drained.
  Millis lost_for = 0;        // Between each loss or eviction and the checkpoint before it, summed.
  uint32_t excused = 0;       // Failures that a retry rule excused.
  uint32_t hangs = 0;         // Attempts that the watchdog ended.
  std::set<NodeId> excluded;  // Not placed there while it fits elsewhere.
  std::vector<RankOutputs> outputs;  // Of one generation, ascending by rank.
  uint32_t ranks = 0;                // The size that it was resized to; 0: never, its request says.
  RT_FIELDS(Runs, attempts, next_attempt, failures, losses, losses_in_row, checkpoints,
            next_checkpoint, evictions, lost_for, excused, hangs, excluded, outputs, ranks);

  Attempt* live() {
    return attempts.empty() || attempts.back().ended_at != 0 ? nullptr : &attempts.back();
  }
  // The live attempt, unless it is frozen.
  Attempt* running() { return live() == nullptr || live()->is_frozen() ? nullptr : live(); }
  // How long the live attempt has run since its newest checkpoint; and how long an attempt had, by
  // its newest one, since the one before that.
  Millis Unsaved(Millis now) const;
  Millis InNewest() const;
  const Attempt* live() const { return const_cast<Runs*>(this)->live(); }
  const Attempt* running() const { return const_cast<Runs*>(this)->running(); }
};

}  // namespace rt
