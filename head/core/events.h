// The facts that the journal holds. Past tense: what happened, never what should be done. Apply
// (apply.h) is the only reader that changes state. The meaning of an event never changes; fields
// are only added, and every field must also be in proto/rt/store/journal.proto under the same
// name (a test compares them). docs/journal.md has a row for each.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/spec/curve.h"
#include "common/spec/pool.h"
#include "head/core/answer_events.h"
#include "head/core/elastic_events.h"
#include "head/core/executor_events.h"
#include "head/core/facts.h"
#include "head/core/freeze_events.h"
#include "head/core/link_events.h"
#include "head/core/machine_events.h"
#include "head/core/resize_events.h"

namespace rt {
namespace event {

// The head took over this journal: epochs fence older heads.
struct HeadStarted {
  uint64_t epoch = 0;
  std::string cluster_id;
  std::string cluster_name;
  std::string version;
  RT_FIELDS(HeadStarted, epoch, cluster_id, cluster_name, version);
};

// A worker heard of a record, from a previous head, that the journal does not have: its end is
// missing. Numbers that the missing records may have used are not used again.
struct HeadRolledBack {
  NodeId node;              // The worker's.
  uint64_t seen_epoch = 0;  // The newest that it heard of, and the epoch of that head.
  uint64_t seen_seq = 0;
  RT_FIELDS(HeadRolledBack, node, seen_epoch, seen_seq);
};

struct TokenCreated {
  std::string token;  // Its id, never its secret.
  std::string role;
  Millis expires_at = 0;
  std::string pool;
  std::string name = {};  // Of the person or node that joins with it; empty: a node chooses.
  uint64_t machine = 0;   // That joins with it; 0: none that the head has asked for.
  RT_FIELDS(TokenCreated, token, role, expires_at, pool, name, machine);
};
struct TokenUsed {
  std::string token;
  RT_FIELDS(TokenUsed, token);
};
struct TokenRevoked {
  std::string token;
  RT_FIELDS(TokenRevoked, token);
};

// A node got its identity (its certificate is issued after this is durable).
struct NodeJoined {
  NodeId node;
  std::string name;
  std::string pool;
  uint64_t machine = 0;  // As in its token.
  RT_FIELDS(NodeJoined, node, name, pool, machine);
};
// Its daemon said hello for the first time, or again after it was LOST, or with another inventory.
struct NodeReady {
  NodeId node;
  NodeInventory inventory;
  RT_FIELDS(NodeReady, node, inventory);
};
// Its daemon was stopped in order and announced that it comes back. Until then the node keeps what
// it runs, takes no work, and is not lost; its next NodeReady says that it is back.
struct NodeAway {
  NodeId node;
  Millis until = 0;
  RT_FIELDS(NodeAway, node, until);
};
// Nothing more is heard from it; every attempt on it has ended with kLost before this event.
struct NodeLost {
  NodeId node;
  std::string reason;
  Millis seen_at = 0;  // When it was heard last; 0: not by the head that gave it up.
  RT_FIELDS(NodeLost, node, reason, seen_at);
};
// The node was given notice, or a person drains it; or the deadline or reason has changed. It takes
// no new work, and the trials that run there are asked to save and continue on other nodes.
struct NodeDraining {
  NodeId node;
  std::string reason;
  Millis until = 0;  // The deadline; 0: none.
  bool by_hand = false;  // Until a person takes it back, whatever the node says of notices.
  RT_FIELDS(NodeDraining, node, reason, until, by_hand);
};
struct NodeResumed {  // The notice was never carried out, or the person took it back.
  NodeId node;
  RT_FIELDS(NodeResumed, node);
};
// A person or a probe says that a quarantined gpu may take work again.
struct GpuCleared {
  NodeId node;
  std::string uuid;
  uint64_t quarantine = 0;  // That of the inventory, and earlier ones.
  std::string probe = {};   // What the probe found; empty: a person says so.
  RT_FIELDS(GpuCleared, node, uuid, quarantine, probe);
};
// A probe has found a fault of a gpu that the node lists and that had no quarantine.
struct GpuFaultFound {
  NodeId node;
  std::string uuid;
  std::string what;
  RT_FIELDS(GpuFaultFound, node, uuid, what);
};
struct NodeGone {  // Removed for good: its identity is void.
  NodeId node;
  std::string reason;
  RT_FIELDS(NodeGone, node, reason);
};

struct JobSubmitted {
  JobId job;
  std::string owner;  // The user.
  std::string spec;   // JSON, as the user wrote it.
  std::string request_key;
  // What Step made of it, and its format; 0: a release that knew the user's text only. See
  // common/spec/journalled_spec.h.
  std::string normal_spec;
  uint32_t spec_format = 0;
  RT_FIELDS(JobSubmitted, job, owner, spec, request_key, normal_spec, spec_format);
};
struct JobStopRequested {
  JobId job;
  std::string reason;
  RT_FIELDS(JobStopRequested, job, reason);
};
struct JobEnded {
  JobId job;
  JobEnd end = JobEnd::kNone;
  int32_t exit_code = 0;
  int32_t signal = 0;
  std::string reason;
  RT_FIELDS(JobEnded, job, end, exit_code, signal, reason);
};

struct ExperimentCreated {
  ExperimentId experiment;
  std::string owner;
  JobId job;  // The driver's job; 0 when the driver is outside.
  std::string spec;  // JSON, as the user wrote it.
  std::string request_key;
  uint64_t seed = 0;
  std::string results_dir;  // Absolute, unique among experiments.
  std::string normal_spec;  // As in JobSubmitted.
  uint32_t spec_format = 0;
  RT_FIELDS(ExperimentCreated, experiment, owner, job, spec, request_key, seed, results_dir,
            normal_spec, spec_format);
};
struct ExperimentStopRequested {
  ExperimentId experiment;
  StopCause cause = StopCause::kNone;
  std::string reason;
  RT_FIELDS(ExperimentStopRequested, experiment, cause, reason);
};
// Every trial has ended; the result files are not complete yet.
struct ExperimentFinishing {
  ExperimentId experiment;
  ExperimentEnd end = ExperimentEnd::kNone;
  std::string reason;
  RT_FIELDS(ExperimentFinishing, experiment, end, reason);
};
// The result files are complete up to ExperimentFinishing: the state is terminal now.
struct ExperimentFinished {
  ExperimentId experiment;
  RT_FIELDS(ExperimentFinished, experiment);
};

struct TrialCreated {
  TrialId trial;
  std::string params;  // JSON.
  uint32_t bracket = 0;
  std::string name;       // As its driver called it; empty: by its number.
  std::string directory;  // The same for its results directory, the last part of its path.
  std::string resources;  // JSON, as its driver asked; empty: as its experiment says.
  std::string normal_resources;  // As JobSubmitted's normal_spec; empty where `resources` is.
  uint32_t spec_format = 0;
  RT_FIELDS(TrialCreated, trial, params, bracket, name, directory, resources, normal_resources,
            spec_format);
};
struct TrialStopRequested {
  TrialId trial;
  StopCause cause = StopCause::kNone;
  std::string reason;
  RT_FIELDS(TrialStopRequested, trial, cause, reason);
};
struct TrialEnded {
  TrialId trial;
  TrialEnd end = TrialEnd::kNone;
  std::string reason;
  ErrorInfo error;
  RT_FIELDS(TrialEnded, trial, end, reason, error);
};

// An owner got nodes: attempt `number` is the current one from here on. `checkpoint` (0: none) is
// what it starts from. `start_after`: the attempt behind which it is backfilled, which ends first
// and passes its capacity on; no owner: it has capacity of its own. `ranks`: so many of the members
// run a program; 0: as many as its owner asks for, which is one except in older records.
struct AttemptPlaced {
  AttemptId attempt;
  std::vector<Member> members;
  uint64_t checkpoint = 0;
  AttemptId start_after;
  uint32_t ranks = 0;
  RT_FIELDS(AttemptPlaced, attempt, members, checkpoint, start_after, ranks);
};
struct AttemptStarted {
  AttemptId attempt;
  uint32_t rank = 0;
  uint64_t pid = 0;  // Of the user's process.
  RT_FIELDS(AttemptStarted, attempt, rank, pid);
};
// Trials of a higher priority need its capacity: it was asked to save and end, and then waits.
struct PreemptionRequested {
  AttemptId attempt;
  ExperimentId by;
  RT_FIELDS(PreemptionRequested, attempt, by);
};
// Rank 0's node keeps a port for it, at which its ranks will meet: the others can be started.
struct PortAgreed {
  AttemptId attempt;
  uint32_t port = 0;
  RT_FIELDS(PortAgreed, attempt, port);
};
// One rank of several has ended. Unless it succeeded, the others are ended as well; the attempt
// ends once all of them have, and their rows are in.
struct RankExited {
  AttemptId attempt;
  RankExit exit;
  RT_FIELDS(RankExited, attempt, exit);
};
// The owner is free again: terminal events follow in the same batch, or it waits for a placement.
struct AttemptEnded {
  AttemptId attempt;
  AttemptOutcome outcome = AttemptOutcome::kNone;
  int32_t exit_code = 0;
  int32_t signal = 0;
  std::string reason;
  ErrorInfo error;
  uint32_t rule = 0;     // As in RankExit.
  bool excused = false;  // By that rule the failure does not count.
  NodeId excluded;       // From here on it goes elsewhere, while there is another; 0: none.
  GpuUse gpu;            // Of all its ranks that told it.
  RT_FIELDS(AttemptEnded, attempt, outcome, exit_code, signal, reason, error, rule, excused,
            excluded, gpu);
};

// A batch of rows of one rank was made durable in the same transaction. `count` rows were kept,
// rows after a stop are not. `best` is the trial's best metric value so far, if `has_best`.
struct ReportsAccepted {
  AttemptId attempt;
  uint32_t rank = 0;
  uint64_t seq_to = 0;  // Everything up to here is settled.
  uint64_t count = 0;
  LastReport last;  // Of the kept rows; seq 0 when none was kept.
  bool has_best = false;
  double best = 0;
  double best_iteration = 0;
  std::string rows_digest;  // Over the kept rows, 32 bytes.
  // The last kept row comes with a checkpoint, whose commit may follow.
  bool reported_with_checkpoint = false;
  std::vector<CurveRow> curve;  // Of the kept rows, where the trial's scheduler compares curves.
  std::vector<double> plateau;  // The values of the kept rows that a plateau rule compares.
  // Likewise for the plateau rule of the experiment, without rows that a trial has repeated.
  std::vector<double> experiment_plateau;
  RT_FIELDS(ReportsAccepted, attempt, rank, seq_to, count, last, has_best, best, best_iteration,
            rows_digest, reported_with_checkpoint, curve, plateau, experiment_plateau);
};
// An early-stopping rule saw a trial at a milestone. A NaN value is recorded as such.
struct RungRecorded {
  TrialId trial;
  uint32_t bracket = 0;
  double milestone = 0;
  double value = 0;
  bool stopped = false;  // The rule stopped it here.
  // The row that has the value; 0 in journals of releases that did not say.
  uint32_t attempt = 0;
  uint64_t row = 0;
  uint32_t resizes = 0;  // Of that attempt: its generation less one.
  bool with_checkpoint = false;  // That row came with a checkpoint.
  RT_FIELDS(RungRecorded, trial, bracket, milestone, value, stopped, attempt, row, resizes,
            with_checkpoint);
};

// The shard of one rank of a gang is durable; those of the other ranks follow. No attempt starts
// from it before CheckpointCommitted names it; a shard not named when the attempt ends is dropped.
struct CheckpointShardCommitted {
  AttemptId attempt;
  uint32_t rank = 0;
  std::string manifest;
  uint64_t seq = 0;  // The row it came with: those of one number are one checkpoint.
  double iteration = 0;  // These and the score are that row's.
  double time_total_s = 0;
  Bytes bytes = 0;
  bool has_score = false;
  double score = 0;
  RT_FIELDS(CheckpointShardCommitted, attempt, rank, manifest, seq, iteration, time_total_s, bytes,
            has_score, score);
};
// Its bytes are durable: in the store or, until CheckpointStored, on the nodes `replicas`. `seq` is
// the last row of the rank that it contains.
struct CheckpointCommitted {
  AttemptId attempt;
  uint64_t checkpoint = 0;  // Counts from 1 within the owner.
  std::string manifest;     // Digest.
  uint64_t seq = 0;
  double iteration = 0;
  double time_total_s = 0;
  Bytes bytes = 0;
  bool has_score = false;
  double score = 0;
  std::vector<std::string> shards;  // Manifests of the other ranks' shards, by rank.
  std::vector<NodeId> replicas;     // The training node first; empty: the store has it.
  RT_FIELDS(CheckpointCommitted, attempt, checkpoint, manifest, seq, iteration, time_total_s, bytes,
            has_score, score, shards, replicas);
};
// The store has it now: its replicas are not needed any more.
struct CheckpointStored {
  Owner owner;
  uint64_t checkpoint = 0;
  RT_FIELDS(CheckpointStored, owner, checkpoint);
};
// One of several replicas is lost: its bytes were removed or changed on that node.
struct CheckpointReplicaLost {
  Owner owner;
  uint64_t checkpoint = 0;
  NodeId node;
  RT_FIELDS(CheckpointReplicaLost, owner, checkpoint, node);
};
// A node may remove a replica. Has no effect on the state. It is journalled so that only the
// leading head can release a replica.
struct CheckpointReleased {
  Owner owner;
  std::string manifest;
  NodeId node;
  RT_FIELDS(CheckpointReleased, owner, manifest, node);
};
// No policy keeps it any more, or its bytes are lost; they are swept later, by the state.
struct CheckpointRetired {
  Owner owner;
  uint64_t checkpoint = 0;
  RT_FIELDS(CheckpointRetired, owner, checkpoint);
};

// The store has what a rank of an attempt that is over wrote. It replaces what earlier attempts of
// the owner had written.
struct OutputsKept {
  AttemptId attempt;
  uint32_t rank = 0;
  KeptOutputs outputs;
  RT_FIELDS(OutputsKept, attempt, rank, outputs);
};

}  // namespace event

using EventVariant = std::variant<
    event::HeadStarted, event::TokenCreated, event::TokenUsed, event::TokenRevoked,
    event::NodeJoined, event::NodeReady, event::NodeLost, event::NodeDraining, event::NodeResumed,
    event::NodeGone, event::JobSubmitted, event::JobStopRequested, event::JobEnded,
    event::ExperimentCreated, event::ExperimentStopRequested, event::ExperimentFinishing,
    event::ExperimentFinished, event::TrialCreated, event::TrialStopRequested, event::TrialEnded,
    event::AttemptPlaced, event::AttemptStarted, event::AttemptEnded, event::ReportsAccepted,
    event::RungRecorded, event::CheckpointCommitted, event::CheckpointRetired,
    event::ExperimentPaused, event::ExperimentResumed, event::ExperimentExtended,
    event::ExperimentReopened, event::TrialPaused, event::TrialResumed, event::TrialRetried,
    event::PortAgreed, event::RankExited, event::DriverAttached, event::DriverAnswered,
    event::SearchFinished, event::CheckpointShardCommitted, event::PreemptionRequested,
    event::HeadRolledBack, event::CheckpointStored, event::CheckpointReplicaLost,
    event::CheckpointReleased, event::StopKeyReported, event::OutputsKept, event::NodeAway,
    event::Answered, event::MachinesRequested, event::MachinesCreated, event::MachinesFailed,
    event::MachineReleased, event::MachineDeleted, event::AttemptResizeRequested,
    event::AttemptResizeForced, event::AttemptResizeGivenUp, event::AttemptResized,
    event::ResourcesRequested, event::GpuCleared, event::ExecutorRequested,
    event::ExecutorReleaseRequested, event::ExecutorEnded, event::ProfileRecorded,
    event::SizesAnswered, event::TrialReallocated, event::GpuFaultFound, event::ExecutorDelayed,
    event::AttemptFreezeRequested, event::AttemptFrozen, event::AttemptThawed,
    event::AttemptFreezeGivenUp, event::LinkFoundSlow, event::LinkCleared, event::LinkRetried>;

template <typename T, typename Variant = EventVariant>
inline constexpr bool kIsAlternative = false;
template <typename T, typename... Types>
inline constexpr bool kIsAlternative<T, std::variant<Types...>> = (std::is_same_v<T, Types> || ...);
template <typename T>
concept IsEvent = kIsAlternative<T>;

// An event of any type, to be read with std::visit and std::get_if. What copies, moves and destroys
// it is compiled once, in events.cc: a variant of so many types costs each file that does so itself
// several seconds.
class Event : public EventVariant {
 public:
  Event();
  template <IsEvent T>
  Event(T event) : Event(From(std::move(event))) {}  // Implicit: each of them is an event.
  Event(const Event& other);
  Event(Event&& other) noexcept;
  Event& operator=(const Event& other);
  Event& operator=(Event&& other) noexcept;
  ~Event();

  template <IsEvent T>
  static Event From(T event);

 private:
  template <IsEvent T>
  Event(std::in_place_type_t<T> type, T event);
};

// "AttemptPlaced": for logs, tests and docs.
const char* EventName(const Event& event);

}  // namespace rt
