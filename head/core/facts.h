// What events, the state and the inputs are made of: inventories, members, outcomes, errors and
// reported rows. Journalled as parts of events, so the rules of events.h apply here too: meanings
// never change, fields are only added, and proto/rt/store/journal.proto has the same names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/spec/observed.h"
#include "common/spec/resources.h"

namespace rt {

// A gpu, or a slice of one (MIG), as a worker found it.
struct GpuInfo {
  std::string uuid;    // What CUDA_VISIBLE_DEVICES takes.
  uint32_t index = 0;  // Its own on the node, for as long as the node is up.
  std::string name;
  Bytes memory = 0;
  std::string fault;  // Why it takes no work; empty: it does.
  // Of a fault that lasts until it is cleared: its number, greater for a later one; 0: no such one.
  uint64_t quarantine = 0;
  uint32_t island = 0;  // Those of one number are joined by NVLink, or by one PCIe switch.
  bool by_hand = false;  // Only a person ends that quarantine: no probe can tell.
  RT_FIELDS(GpuInfo, uuid, index, name, memory, fault, quarantine, island, by_hand);
};

// A person or a probe ended the quarantine of a gpu: that of this number, and those before it.
struct ClearedGpu {
  std::string uuid;
  uint64_t quarantine = 0;
  std::string probe;  // What the probe found that ended it; empty: a person did.
  Millis at = 0;
  bool heard = false;  // The worker knows: what is left is for people to read.
  RT_FIELDS(ClearedGpu, uuid, quarantine, probe, at, heard);
};

// A gpu that a probe found at fault, and that its worker is to quarantine.
struct FaultyGpu {
  std::string uuid;
  std::string what;
  RT_FIELDS(FaultyGpu, uuid, what);
};

// What a worker daemon says of its node when it (re)appears.
struct NodeInventory {
  std::string address;  // Where peers reach it; empty when they cannot.
  Resources resources;
  std::map<std::string, std::string> labels;
  std::vector<GpuInfo> gpus;
  std::string version;
  std::string boot_id;
  uint64_t pid = 0;
  std::string state_dir;  // Of its daemon, on the node.
  uint64_t incarnation = 0;  // Of the daemon; a later daemon of the node has a greater one.
  RT_FIELDS(NodeInventory, address, resources, labels, gpus, version, boot_id, pid, state_dir,
            incarnation);
};

// Where one rank of an attempt runs, or, beyond the ranks, a bundle that is reserved for it.
struct Member {
  uint32_t rank = 0;  // Its index in the attempt's list, and that of its bundle.
  NodeId node;
  // Indices of the node's gpus: all of each, or, of a request below one, that share of the one.
  std::vector<uint32_t> gpus;
  RT_FIELDS(Member, rank, node, gpus);
};

// Another number of ranks that a live generation was asked to continue with (docs/adr/0028).
struct Resize {
  std::vector<Member> members;  // Of the next generation, by rank; empty: no resize is under way.
  // When the generation was asked to save; not cleared when the resize is given up, because the
  // generation may be ending.
  Millis requested_at = 0;
  Millis save_by = 0;   // The deadline.
  bool forced = false;  // It did not save in time, and is ended without: the others do not wait.
  RT_FIELDS(Resize, members, requested_at, save_by, forced);

  bool is_pending() const { return !members.empty(); }
};

// An attempt that is stopped where it is, in place of saving and ending (docs/adr/0043).
struct Freeze {
  uint32_t round = 0;       // Of the newest request; counts from 1.
  Millis requested_at = 0;  // 0: it is neither frozen nor to be frozen.
  Millis frozen_at = 0;     // 0: it is not frozen.
  std::string refused;      // Why it was not frozen, when it was last asked to be.
  Millis total = 0;         // Of the freezes that are over.
  Millis skipped = 0;       // The same, since its newest checkpoint or its start.
  RT_FIELDS(Freeze, round, requested_at, frozen_at, refused, total, skipped);

  bool is_wanted() const { return requested_at != 0; }
};

// So many bundles of this size.
struct RequestedBundles {
  Resources each;
  uint64_t count = 0;
  RT_FIELDS(RequestedBundles, each, count);
};

// A machine that a provider has made.
struct CreatedMachine {
  uint64_t machine = 0;
  std::string id;  // The provider's name for it.
  RT_FIELDS(CreatedMachine, machine, id);
};

// Why an attempt is over.
enum class AttemptOutcome : uint32_t {
  kNone = 0,
  kSucceeded = 1,     // Exit code 0, or ended after it was asked to stop.
  kFailed = 2,        // Its own fault: counts against max_failures.
  kLost = 3,          // Its node was lost, or its daemon was not alive to see the exit.
  kStopped = 4,       // Ended on request.
  kLaunchFailed = 5,  // Could not be started (bundle missing, program not found).
  kSuspended = 6,     // Suspended with its owner; it resumes from its newest checkpoint.
  kPreempted = 7,     // Evicted because its node drains; it resumes on another one.
  kHung = 8,          // Ended by its watchdog: no report for too long. It resumes likewise.
  kWithdrawn = 9,     // A backfill that was cancelled before it started; it waits again.
  kResized = 10,      // Saved and ended for a resize; it resumes with another number of ranks.
};

// How the program of one rank ended, where there are several.
struct RankExit {
  uint32_t rank = 0;
  AttemptOutcome outcome = AttemptOutcome::kNone;
  int32_t exit_code = 0;
  int32_t signal = 0;
  uint64_t last_seq = 0;  // Of the rows that it reported.
  std::string reason;
  ErrorInfo error;
  uint32_t rule = 0;  // Of the experiment's retry rules, from 1: the one that matched; 0: none.
  GpuUse gpu;
  bool untested = false;  // Its preflight failed, and named neither a gpu nor a link.
  RT_FIELDS(RankExit, rank, outcome, exit_code, signal, last_seq, reason, error, rule, gpu,
            untested);
};

// A file of an attempt that was not kept.
struct LeftOut {
  std::string path;
  Bytes bytes = 0;
  std::string reason;
  RT_FIELDS(LeftOut, path, bytes, reason);
};
// What one rank wrote in its working directory ("work/…" in the manifest) and in RT_TRIAL_DIR
// ("trial/…"), below "rank-N/" for ranks other than 0.
struct KeptOutputs {
  std::string manifest;  // Digest; empty: all of it was left out.
  uint64_t files = 0;
  Bytes bytes = 0;
  std::vector<std::string> paths;  // The first limits::kOutputNamesMax of them.
  std::vector<LeftOut> left_out;   // The first of what was left out,
  uint64_t left_out_files = 0;     // and all of it.
  Bytes left_out_bytes = 0;
  RT_FIELDS(KeptOutputs, manifest, files, bytes, paths, left_out, left_out_files, left_out_bytes);
};

enum class TrialEnd : uint32_t { kNone = 0, kCompleted = 1, kStopped = 2, kFailed = 3 };
enum class JobEnd : uint32_t { kNone = 0, kSucceeded = 1, kFailed = 2, kStopped = 3 };
// kLost: with its node, or its daemon; kStopped: it was released.
enum class ExecutorEnd : uint32_t {
  kNone = 0,
  kSucceeded = 1,
  kFailed = 2,
  kStopped = 3,
  kLost = 4,
};
enum class ExperimentEnd : uint32_t { kNone = 0, kCompleted = 1, kStopped = 2, kFailed = 3 };

// Who decided that a trial stops. kRule and kMaxT end it COMPLETED, kMetric FAILED, the others
// STOPPED.
enum class StopCause : uint32_t {
  kNone = 0,
  kRule = 1,        // A stop rule was met.
  kEarly = 2,       // Early stopping.
  kUser = 3,        // `rt trial stop`.
  kExperiment = 4,  // The experiment was stopped, or failed fast.
  kBudget = 5,      // The experiment's time budget ran out.
  kMaxT = 6,        // The scheduler's max_t was reached: COMPLETED.
  kMetric = 7,      // A row without the search's metric: FAILED, and not tried again.
};

// A trial that an algorithm created.
struct CreatedTrial {
  uint32_t number = 0;
  std::string params;  // JSON.
  uint32_t bracket = 0;
  // As in TrialCreated.
  std::string name;
  std::string directory;
  std::string resources;
  std::string normal_resources;
  uint32_t spec_format = 0;
  RT_FIELDS(CreatedTrial, number, params, bracket, name, directory, resources, normal_resources,
            spec_format);
};
// A trial that an algorithm stopped, or paused.
struct StoppedTrial {
  uint32_t number = 0;
  StopCause cause = StopCause::kNone;
  std::string reason;
  RT_FIELDS(StoppedTrial, number, cause, reason);
};
struct SuspendedTrial {
  uint32_t number = 0;
  std::string reason;
  RT_FIELDS(SuspendedTrial, number, reason);
};

// A trial that continues with another configuration from a checkpoint of another trial of its
// experiment.
struct ClonedTrial {
  uint32_t number = 0;
  uint32_t from = 0;
  uint64_t checkpoint = 0;  // Of that trial.
  std::string params;       // JSON.
  RT_FIELDS(ClonedTrial, number, from, checkpoint, params);
};

// A trial that is to be cloned once its driver has seen `params`, the configuration that the
// scheduler of the head has made.
struct AskedClone {
  uint32_t number = 0;
  uint32_t from = 0;
  std::string params;  // JSON.
  RT_FIELDS(AskedClone, number, from, params);
};

// Resources that a driver gives a trial: from the attempt on that begins after it has saved next.
struct AllocatedTrial {
  uint32_t number = 0;
  std::string resources;         // JSON; empty: it keeps what it has.
  std::string normal_resources;  // As in TrialCreated.
  uint32_t spec_format = 0;
  RT_FIELDS(AllocatedTrial, number, resources, normal_resources, spec_format);
};

// A trial whose search model had no answer: its configuration is what the search algorithm proposes
// without results.
struct FallbackTrial {
  uint32_t number = 0;
  std::string reason;
  RT_FIELDS(FallbackTrial, number, reason);
};

// Who decided that a trial does not run for now.
enum class PauseCause : uint32_t {
  kNone = 0,
  kUser = 1,
  kScheduler = 2,
  kPriority = 3,
  kResources = 4,  // Its attempt ends, so that the next one has other resources.
};

// The newest accepted row of a rank.
struct LastReport {
  uint64_t seq = 0;
  double iteration = 0;
  double time_total_s = 0;
  Millis timestamp = 0;
  std::string metrics;  // JSON text.
  RT_FIELDS(LastReport, seq, iteration, time_total_s, timestamp, metrics);
};

// One reported row, kept beside the events; Apply never reads it.
struct Row {
  uint64_t seq = 0;  // Counts from 1 within (attempt, rank).
  double iteration = 0;
  double time_total_s = 0;  // Of training, over all attempts of the lineage.
  Millis timestamp = 0;
  std::string metrics;  // JSON text.
  RT_FIELDS(Row, seq, iteration, time_total_s, timestamp, metrics);
};
// The kept rows of one ReportsAccepted.
struct RowBatch {
  AttemptId attempt;
  uint32_t rank = 0;
  std::vector<Row> rows;
  RT_FIELDS(RowBatch, attempt, rank, rows);
};

// A trial at a rung: its value there, and the row that had it.
struct RungEntry {
  uint32_t trial = 0;
  double value = 0;
  uint32_t attempt = 0;
  uint64_t row = 0;
  uint32_t resizes = 0;  // Of the attempt, by then.
  RT_FIELDS(RungEntry, trial, value, attempt, row, resizes);
};
// One rung of an early-stopping bracket.
struct Rung {
  uint32_t bracket = 0;
  double milestone = 0;
  std::vector<double> values;  // Ascending; NaNs are not kept here.
  uint64_t recorded = 0;       // NaNs included.
  uint64_t stopped = 0;
  // In the order in which they were recorded, NaNs included; without those of releases that did not
  // say which row had the value.
  std::vector<RungEntry> entries;
  RT_FIELDS(Rung, bracket, milestone, values, recorded, stopped, entries);
};

}  // namespace rt
