// What the outside tells the core, already checked for shape and size by the edge. Imperatives and
// nouns: Step decides what, if anything, becomes a fact.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/limits.h"
#include "common/base/limits_elastic.h"
#include "common/base/time.h"
#include "common/search/model.h"
#include "common/spec/observed.h"
#include "head/core/events.h"

namespace rt {

namespace input {

struct StartHead {
  std::string cluster_id;  // Used only when the journal is new.
  std::string cluster_name;
  std::string version;
  // What the nodes that the configuration can bring have, one entry per kind; empty: unknown.
  std::vector<Resources> node_types = {};
  bool restored = false;  // The journal is an older copy: later heads than the last one in it led.
  // Of which nodes are made by demand; with the sizes that are to be counted on.
  std::vector<PoolSpec> pools = {};
  std::optional<uint32_t> max_workers = {};  // Machines of all pools together; none: no bound.
  Millis elastic_interval = limits::kElasticInterval;  // Between two sizes of an elastic attempt.
  bool fetches_logs = false;  // Of nodes that are to be released; NodeLogsFetched follows.
};
struct CreateToken {
  std::string token;
  std::string role;
  Millis ttl = 0;
  std::string pool;
  std::string name = {};  // Empty: a person's is made from the token's id, a node chooses its own.
  uint64_t machine = 0;   // It will join with the token; 0: none that the head has asked for.
};
struct RevokeToken {
  std::string token;
};
// A node or person presents a join token; answered with a NodeId for role "worker". A refusal does
// not spend the token.
struct UseToken {
  std::string token;
  std::string name;  // That it asks for; may be empty.
};

// The worker's whole view. `incarnation` grows with each daemon process of the node; it is also
// in the inventory, where it outlives the head.
struct Sync {
  NodeId node;
  uint64_t incarnation = 0;
  uint64_t sync_seq = 0;
  NodeInventory inventory;
  std::vector<Observed> observed;
  bool draining = false;
  std::string drain_reason;
  Millis drain_for = 0;  // Until the deadline of the notice; 0: none.
  Millis away_for = 0;   // The daemon stops, and is back within this; 0: it stays.
  std::string fault;     // Why the daemon cannot take work now; empty: it can.
  // Of the last reply that it took, of whichever head: its epoch and the newest record by then.
  uint64_t seen_epoch = 0;
  uint64_t seen_seq = 0;
  // Attempts that it has forgotten and whose outputs it is still looking through or pushing.
  std::set<Fence> outputs = {};
  std::vector<GpuSample> gpu_samples = {};  // The newest of each gpu.
  std::vector<ProfileReport> profiles = {};
};
// The connection that carried the node's Sync closed. It says nothing when there is a newer one.
struct Disconnected {
  NodeId node;
  uint64_t incarnation = 0;
  uint64_t sync_seq = 0;  // 0: that of all its calls.
};
// The provider saw the daemon of a node on the head's own machine end, and starts it again at once.
// What ran there still runs. Of the same order as Disconnected: either may come first.
struct DaemonEnded {
  std::string node;  // Its name.
};
// A person wants the node empty: it stays so until UndrainNode.
struct DrainNode {
  NodeId node;
  std::string reason;
  Millis deadline = 0;  // After it, remaining attempts are ended; 0: never.
};
struct UndrainNode {
  NodeId node;
  std::string gpu = {};  // Uuid or index: only the quarantine of this gpu ends. Empty: the drain.
  std::string probe = {};  // Of a gpu: what a probe found that ends it. Empty: a person does.
  bool links = false;      // Only its slow links are repaired.
};
// A probe found a fault of this gpu, and nothing else used it meanwhile.
struct QuarantineGpu {
  NodeId node;
  std::string gpu;  // Uuid or index.
  std::string what;
};
// The provider has deleted it, or will: whatever its state.
struct RemoveNode {
  NodeId node;
  std::string reason;
};
// A person knows that a lost node does not come back.
struct ForgetNode {
  NodeId node;
  std::string reason;
};
// Rows of several ranks, in order of seq within each.
struct Report {
  NodeId node;
  std::vector<RowBatch> batches;
  // Rows with a checkpoint that is being pushed; its commit follows.
  std::set<std::pair<Fence, uint64_t>> rows_with_checkpoint;
  uint64_t seen_epoch = 0;  // Of the newest head that the worker has heard.
  uint64_t incarnation = 0;  // Of the daemon that says it; 0: it does not say.
};
// Bytes and manifest are durable: asks for the commit.
struct CommitCheckpoint {
  NodeId node;
  Fence fence;
  std::string manifest;
  Row row;  // The row that came with it (seq 0: none); its counters are the checkpoint's.
  Bytes bytes = 0;
  bool collective = false;  // Of rank 0: the other ranks may have shards of it.
  uint64_t seen_epoch = 0;
  uint64_t incarnation = 0;
  std::vector<NodeId>
      replicas;  // Nodes that have it until the store does; empty: the store has it.
};
// A node that has a replica asks whether it is still needed, and reports what became of it.
struct RenewReplica {
  NodeId node;
  Owner owner;
  std::string manifest;
  enum class ReplicaStatus { kNone = 0, kStored = 1, kGone = 2 } status = ReplicaStatus::kNone;
  uint64_t seen_epoch = 0;
  bool is_early = false;  // Its commit may be on its way, as far as the node knows.
  uint64_t incarnation = 0;
  uint32_t attempt = 0;  // That saved it,
  uint64_t row = 0;      // with this row; 0: not known.
  uint32_t generation = 1;  // Of that attempt.
};

// The store has what a rank wrote that ran on this node and is over.
struct KeepOutputs {
  NodeId node;
  Fence fence;
  KeptOutputs outputs;
  uint64_t seen_epoch = 0;
};

struct SubmitJob {
  std::string owner;
  std::string spec;  // JSON.
  std::string request_key;
};
struct StopJob {
  JobId job;
  std::string reason;
};
// Answered with the executors, as a repeated request is. The opener's attempt must be live.
struct RequestExecutors {
  std::string owner;
  std::string session;
  AttemptId opener;
  std::string request_key;
  int64_t count = 0;
  std::string spec;  // JSON.
};
// The session's driver still listens.
struct RenewSession {
  std::string owner;
  std::string session;
  Owner opener;
};
struct ReleaseExecutors {
  std::string owner;
  std::string session;
  Owner opener;
  std::vector<ExecutorId> executors;  // Those that have ended are skipped.
  bool all = false;                   // Of the session.
  std::string reason;
};
// A person, or a driver of the same user, ends one executor: by its id, or a detached actor by its
// name.
struct StopExecutor {
  ExecutorId executor;
  std::string owner;  // Of the actor.
  std::string actor;
  std::string reason;
};
struct CreateExperiment {
  std::string owner;
  JobId job;
  std::string spec;  // JSON.
  std::string request_key;
  uint64_t drawn_seed = 0;   // Used when the spec has none.
  std::string results_root;  // Absolute; used when the spec has no results_dir.
  std::string reserved_dir;  // Made for it already; empty: the first name that no other has.
};
struct StopExperiment {
  ExperimentId experiment;
  std::string reason;
};
struct StopTrial {
  TrialId trial;
  std::string reason;
};
struct PauseExperiment {
  ExperimentId experiment;
  std::string reason;
};
// Of a paused experiment, or of a finished one of which some trials run again.
struct ResumeExperiment {
  // A trial stays as it is, resumes from its newest checkpoint, or starts from scratch.
  enum class TrialAction : uint8_t { kLeave = 0, kResume = 1, kRestart = 2 };
  ExperimentId experiment;
  TrialAction failed = TrialAction::kLeave;
  TrialAction unfinished = TrialAction::kResume;  // Ended with the search, not by itself.
  TrialAction finished = TrialAction::kLeave;     // Completed, or stopped by itself.
  std::string trainable = {};  // As ExperimentReopened has it.
};
struct ExtendExperiment {
  ExperimentId experiment;
  int64_t add_samples = 0;
  Millis add_time = 0;
};
struct PauseTrial {
  TrialId trial;
  PauseCause cause = PauseCause::kUser;
  std::string reason;
};
struct ResumeTrial {
  TrialId trial;
};
// A live trial is to continue with this number of ranks; docs/adr/0028.
struct ResizeRun {
  Owner owner;
  uint32_t ranks = 0;
  Millis save_within = limits::kResizeSaveWithin;  // It has this long to save.
};
struct RetryTrial {
  TrialId trial;
  bool from_scratch = false;  // Without its checkpoints.
};
// A driver is ready to answer what the experiment asks; answered with its session and how far its
// predecessors answered.
struct AttachDriver {
  ExperimentId experiment;
  std::string driver;  // Unlike any other process's.
};
// The driver still listens; or it will once a function of the user's returns.
struct DriverListens {
  ExperimentId experiment;
  uint64_t session = 0;
  std::string function = {};  // The function in which it is; empty: it listens.
  Millis called_for = 0;      // How long it has been there.
};
// What a driver decided after it saw the journal from `from` to `through`.
struct AnswerQuestions {
  ExperimentId experiment;
  uint64_t session = 0;
  uint64_t from = 0;  // What it had answered before: the answers of two drivers never mix.
  uint64_t through = 0;
  struct Suggestion {
    uint32_t number = 0;
    std::string params;  // JSON.
    std::string name = {};
    std::string directory = {};
    std::string resources = {};  // JSON; empty: as its experiment says.
  };
  std::vector<Suggestion> suggestions;
  bool search_finished = false;
  struct Stop {
    uint32_t number = 0;
    bool early = false;  // Its scheduler stopped it: STOPPED; otherwise a rule did: COMPLETED.
    std::string reason;
  };
  std::vector<Stop> stops;
  std::vector<uint32_t> pauses, resumes;  // Trials, by number.
  // What it made of the configuration of a clone about which it was asked.
  struct Explored {
    uint32_t number = 0;
    std::string params;        // JSON.
    std::string failure = {};  // Why it made nothing of it: `params` is not read then.
  };
  std::vector<Explored> explored;
  struct Allocated {
    uint32_t number = 0;
    std::string resources;  // JSON.
  };
  std::vector<Allocated> allocated;
  bool stop_all = false;
  std::string stop_all_reason;
};
// What a search model proposes for the trials from `from` on (lane.h). `epoch` and
// `observed_through` are those of the question.
struct LaneAnswered {
  struct Proposal {
    std::string params;         // JSON.
    std::string fallback = {};  // Why the model had no answer; empty: it is the model's.
  };
  ExperimentId experiment;
  uint64_t epoch = 0;
  uint32_t from = 0;
  uint64_t observed_through = 0;
  std::vector<Proposal> points;
  // The configuration of a clone of `trial`, which continues from `from`.
  struct Explored {
    uint32_t trial = 0;
    uint32_t from = 0;
    uint64_t comparisons = 0;   // As in ExploreQuestion.
    std::string base;           // The configuration of `from`, JSON.
    std::string params;         // JSON.
    std::string fallback = {};  // As in Proposal.
  };
  std::vector<Explored> explored;
  std::optional<ModelBelief> belief;  // The model's predictions, for people. Not journalled.
};
// How many ranks a policy gives to elastic attempts (elastic.h).
struct ElasticAnswered {
  uint64_t epoch = 0;
  Millis asked_at = 0;
  event::SizesAnswered answer;  // Without groups: there was no time for one.
};
// The sinks are durable up to and including this event, except those of the experiments `behind`.
struct SinksFlushed {
  uint64_t seq = 0;
  std::set<ExperimentId> behind = {};
  std::map<ExperimentId, std::string> problems = {};  // Why files are missing or incomplete.
};
// What the provider answered to a call of Create; the machines may be fewer than asked for.
struct MachinesCreated {
  uint64_t request = 0;
  std::vector<CreatedMachine> machines;
};
struct MachinesFailed {
  uint64_t request = 0;
  ProviderError error = ProviderError::kNone;
  std::string reason;
};
// All machines with this cluster's tag. Those of calls that had ended before `complete_before` are
// all in it; later ones may be missing.
struct MachinesListed {
  struct Item {
    uint64_t machine = 0;
    std::string id;
    std::string pool;
  };
  std::vector<Item> machines;
  Millis complete_before = 0;
};
struct MachinesTerminated {  // They are gone.
  std::vector<uint64_t> machines;
};
// The cluster is to be able to hold these bundles at once; replaces what was asked for before.
struct RequestResources {
  std::vector<RequestedBundles> bundles;  // Empty: nothing any more.
  std::string by;
};
struct NodeLogsFetched {  // Of all attempts that have ended there.
  NodeId node;
};
// Not journalled: the pools from now on, as StartHead gives them.
struct SetPools {
  std::vector<PoolSpec> pools;
};
struct Tick {};

}  // namespace input

using Input =
    std::variant<input::StartHead, input::CreateToken, input::RevokeToken, input::UseToken,
                 input::Sync, input::Disconnected, input::DaemonEnded, input::RemoveNode,
                 input::DrainNode, input::UndrainNode, input::QuarantineGpu, input::ForgetNode,
                 input::Report, input::CommitCheckpoint, input::RenewReplica, input::KeepOutputs,
                 input::SubmitJob, input::StopJob, input::RequestExecutors, input::RenewSession,
                 input::ReleaseExecutors, input::StopExecutor, input::CreateExperiment,
                 input::StopExperiment, input::StopTrial, input::PauseExperiment,
                 input::ResumeExperiment, input::ExtendExperiment, input::PauseTrial,
                 input::ResumeTrial, input::RetryTrial, input::ResizeRun, input::AttachDriver,
                 input::DriverListens, input::AnswerQuestions, input::LaneAnswered,
                 input::ElasticAnswered, input::SinksFlushed, input::MachinesCreated,
                 input::MachinesFailed, input::MachinesListed, input::MachinesTerminated,
                 input::RequestResources, input::NodeLogsFetched, input::SetPools, input::Tick>;

// What Report answers for each batch, in order.
struct ReportVerdict {
  Fence fence;
  bool stale = false;  // The fence is not the current one: forget these rows.
  uint64_t acked_seq = 0;
  bool stop = false;   // The trial was asked to stop.
  uint64_t stop_seq = 0;  // The last row that was kept, when a row of this rank decided.
  std::string reason;
  bool suspend = false;  // The attempt was asked to save and end.
};

// The answer of Step to the sender of the input.
struct Answer {
  NodeId node;
  JobId job;
  ExperimentId experiment;
  std::string results_dir;
  bool attached = false;  // The request key was known: nothing new was made.
  uint64_t checkpoint = 0;
  // Of RenewReplica: whether the replica is needed, and whether this node uploads it to the store.
  bool needed = false;
  bool push = false;
  bool release = false;  // Not needed, and no commit can follow.
  std::vector<ExecutorId> executors;
  uint64_t session = 0;
  uint64_t answered_seq = 0;
  std::vector<ReportVerdict> verdicts;
};

}  // namespace rt
