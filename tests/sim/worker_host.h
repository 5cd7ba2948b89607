// A node: the production worker core inside a daemon that can be killed, stopped and started again,
// the programs that outlive it, and a disk with their spools and exits. Training is fake: rows and
// checkpoints as fast as virtual time allows.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tests/sim/head_host.h"
#include "tests/sim/sim.h"
#include "worker/core/worker_core.h"
#include "worker/session/barriers.h"

namespace rt::sim {

class WorkerHost {
 public:
  WorkerHost(Sim& sim, HeadHost& head, const Auditor& auditor, std::string name, Resources size,
             uint64_t machine = 0)
      : sim_(sim), head_(head), auditor_(auditor), name_(std::move(name)), size_(std::move(size)),
        machine_(machine) {}

  void Boot();
  void KillDaemon();
  void StopInOrder();
  void Reboot(bool keep_disk);
  void LeaveForGood();
  void StopDaemon(Millis span);
  void Freeze(Millis span);
  Millis Drain();  // Gives notice; says for how long.
  void SickenGpu();
  void KillFrozen();
  // A gpu that is quarantined, and which; nothing when there is none.
  std::optional<uint32_t> QuarantinedGpu() const;
  // One that somebody's probe finds at fault now.
  std::optional<uint32_t> ProbedAtFault() const;
  void MayRot(const std::string& manifest);  // It is about to be needed.
  const Resources& size() const { return size_; }
  bool present() const { return present_; }
  bool daemon_up() const { return daemon_up_; }
  NodeId node() const { return node_; }
  // Neither programs nor run directories nor others' bytes; a node that left has none.
  bool IsClean() const {
    return !present_ || (runs_.empty() && core_.attempts.empty() && replicas_.empty());
  }
  std::string Describe() const;  // What it runs, for the message when a simulation is stuck.

 private:
  // A run directory: the program, what it said, and how it ended.
  struct Run {
    LaunchSpec body;
    uint64_t pid = 0;
    bool alive = false;
    std::optional<worker::ExitFacts> exit;  // The exit file.
    uint64_t seq = 0;
    uint64_t acked = 0;
    bool awaits_decision = false;  // By its driver: it waits after each row.
    uint64_t decided_seq = 0;
    double iteration = 0;
    double iterations_total = 0;
    uint64_t checkpoint_every = 0;
    bool obedient = true;  // Ends on SIGTERM.
    bool stubborn = false;  // Once it is asked to end it hangs until SIGKILL.
    bool hangs = false;
    bool is_silent = false;  // Until its watchdog ends it.
    bool hears = true;     // Is connected: a wish to save and end reaches it.
    bool suspending = false;  // It did.
    bool suspended = false;   // It said, or its daemon noted, that it ends for that.
    bool orphaned = false;  // Its daemon noted that no head answered.
    // It was asked to save because its node drains, after this many rows.
    std::optional<uint64_t> evicting_after;
    std::optional<uint64_t> announced_after;  // Its daemon has announced it, after this many rows.
    bool asks = false;                        // It saves at once when it is asked.
    std::deque<Row> spool;
    std::optional<input::CommitCheckpoint> commit;  // Being pushed; a newer one takes its place.
    bool collective = false;     // What the ranks save at one row is one checkpoint.
    uint64_t complete = 0;       // The newest row, as the head said, whose checkpoint is.
    bool awaits_commit = false;  // report() does.
    std::set<uint64_t> checkpoint_rows;  // Rows that came with a checkpoint.
    uint64_t settled = 0;        // The newest row whose checkpoint is committed.
    std::optional<ProfileReport> measured;  // Until it is recorded,
    uint64_t measured_to = 0;               // and the rows up to which something was measured.
    // Of ranks that train together: after each report they meet.
    std::optional<Shard> shard;
    bool has_batch = false;     // Of the step that it is in.
    uint64_t kept_barrier = 0;  // Of rank 0: what daemons have kept as passed.
    uint64_t barrier = 0;       // Where it is, and
    uint64_t passed = 0;        // the newest that it has heard is passed.
    bool is_waiting = false;    // Its daemon has heard that it waits.
    bool saving = false;        // It was asked to save before it is frozen.
    bool frozen = false;        // Its process is stopped.
    worker::FreezeStep freeze_step = worker::FreezeStep::kNone;  // The note of its daemons.
    uint32_t freeze_round = 0;
  };
  // A replica on its disk, until the store has the checkpoint.
  struct Replica {
    Fence fence;
    uint64_t seq = 0;
    bool is_copy = false;     // Another node trained.
    bool is_settled = false;  // The commit was answered.
    uint64_t round = 0;       // Answers of before it was written anew do not count.
    input::RenewReplica::ReplicaStatus status = input::RenewReplica::ReplicaStatus::kNone;
    bool is_pushing = false;
    Millis asked_until = 0;  // Its question may still be answered.
    input::CommitCheckpoint commit;  // Of the checkpoint; of a copy: none.
  };
  enum class Fetched { kHere, kLater, kNever };

  void StartDaemon();
  void EndDaemon(Millis back_within);
  void Daemon(Millis delay, Sim::Effect effect);  // If this daemon still lives, once it runs.
  void Feed(const worker::WorkerInput& input);
  void Perform(const worker::Action& action);
  void Prepare(const Fence& fence);
  void Launch(const Fence& fence);
  uint64_t Incarnation() const { return node_.value * 1'000'000 + daemon_life_; }
  void CheckCapacity(const Resources& wanted) const;
  void CheckGenerations(const Fence& fence) const;
  void SignalRun(const worker::action::Signal& asked);
  void SuspendRun(const Fence& fence);
  void Hang(const Fence& fence, Run& run);
  void WatchHang(const Fence& fence, const Run& run);
  void NoteComplete(const Fence& fence, uint64_t complete_seq);
  void NoteSaved(const Fence& fence, uint64_t seq);
  void EvictRun(const Fence& fence, bool moving);
  bool FreezeStrikes(uint64_t one_of, Fault fault);
  void SaveRun(const Fence& fence);
  void FreezeRun(const Fence& fence, uint32_t round);
  void ThawRun(const Fence& fence);

  void Join();
  std::string TokenName() const { return machine_ == 0 ? "" : name_; }
  void SendSync();
  void AddProfiles(input::Sync& sync);
  void NoteRecorded(const Fence& fence, uint64_t seq);
  void AddGpus(NodeInventory& inventory) const;
  void AddGpuFaults(std::vector<Observed>& observed) const;
  // Whether the test of its gpus finds one sick, which ends the run before its program starts.
  bool FailsPreflight(const Fence& fence, Run& run);
  static NodeId OtherNodeOf(const Run& run);
  bool IsOverSlowLink(const Run& run) const;
  void ClearGpus(const std::vector<ClearedGpu>& all);
  void QuarantineGpus(const std::vector<FaultyGpu>& all);
  void TakeReply(uint64_t sync_seq, const SyncReply& reply);
  void ReportLater();
  void SendReport();
  void TakeVerdict(const ReportVerdict& verdict);
  void Push(const Fence& fence);
  void Drain(const Fence& fence);
  void SendCommit(const Fence& fence);
  void TakeCommitted(const input::CommitCheckpoint& commit, bool complete, bool ok);
  void Secure(const Run& run, input::CommitCheckpoint& commit);
  WorkerHost* FindPeer() const;
  void Hold(const input::CommitCheckpoint& commit, bool is_copy);
  Replica* FindReplica(const std::string& manifest, uint64_t round);
  void RecoverReplicas();
  void RenewLater(const std::string& manifest, uint64_t round);
  bool MayAsk(const std::string& manifest, const Replica& replica) const;
  void Rot(const std::string& manifest, Replica& replica);
  void AskToRenew(const std::string& manifest, Replica& replica);
  void MayAskAgain(const std::string& manifest, uint64_t round);
  void TakeRenewal(const std::string& manifest, uint64_t round, bool release, bool push);
  void DropCopy(const std::string& manifest, Copy why);
  void LoseDisk();
  void OutputsOfStarted(const Fence& fence);
  void OutputsOfForgotten(const Fence& fence);
  void SendOutputs(const Fence& fence, int tries);
  Fetched Fetch(const Fence& fence, const std::string& checkpoint);
  bool MayComeBack(const Owner& owner, const std::string& manifest) const;
  void TickLater();

  void ProcessLater(const Fence& fence, uint64_t pid, Millis delay);
  void ProcessStep(const Fence& fence, Run& run);
  bool MissesPeers(const Fence& fence, const Run& run) const;
  bool TakeBatch(const Fence& fence, Run& run);
  void Report(const Fence& fence, Run& run);
  // ranks.cc
  void StartTraining(const Fence& fence, Run& run);
  void StartBarriers();
  void ArriveLater(const Fence& fence);
  void TellPassed();
  void EndWait(const Fence& fence, uint64_t pid, uint64_t number, bool is_passed);
  void AskPeers();
  void SendQuestion(WorkerHost& peer, const worker::BarrierQuestion& question, uint64_t call);
  // A call to another node's daemon, until it is answered, fails, or is over.
  struct PeerCall {
    AttemptId attempt;
    uint64_t id = 0;
    WorkerHost* peer = nullptr;
    uint64_t peer_life = 0;
    Millis until = 0;
  };
  void WatchCall(const PeerCall& call);
  void EndProcess(const Fence& fence, uint64_t pid, int32_t exit_code, int32_t signal);
  void LoseProcesses();

  Sim& sim_;
  HeadHost& head_;
  const Auditor& auditor_;
  std::string name_;
  Resources size_;
  const uint64_t machine_;  // Of the cloud; 0: it was always there.
  bool present_ = true;
  // The machine and its disk.
  NodeId node_;
  uint64_t head_epoch_ = 0;  // Of the newest head that it has heard.
  uint64_t seen_seq_ = 0;    // The newest record by its last reply to this daemon.
  uint64_t boots_ = 0;
  uint64_t next_pid_ = 100;
  Millis frozen_until_ = 0;
  std::map<Fence, Run> runs_;
  std::map<AttemptId, uint64_t> kept_barriers_;  // With the logs of ranks 0 that have ended.
  std::map<std::string, Replica> replicas_;  // By manifest.
  uint64_t rounds_ = 0;
  Millis drain_until_ = 0;
  std::optional<uint32_t> sick_gpu_;  // Until the faults are over.
  uint64_t quarantine_ = 0;           // Of that gpu, on the node's disk; 0: it is sick by itself.
  // The daemon.
  bool daemon_up_ = false;
  uint64_t daemon_life_ = 0;
  Millis stopped_until_ = 0;
  Millis away_for_ = 0;  // What it announces, because it is being stopped.
  worker::WorkerState core_;
  Millis heard_at_ = 0;  // Its start, or the newest reply to a Sync.
  uint64_t sync_seq_ = 0;
  uint64_t sync_open_ = 0;
  uint64_t seen_version_ = 0;
  uint64_t report_open_ = 0;
  uint64_t reports_sent_ = 0;
  uint64_t joins_ = 0;
  uint64_t tokens_ = 0;
  std::map<Fence, LaunchSpec> bodies_;
  std::unique_ptr<worker::Barriers> barriers_;
  std::set<uint64_t> open_calls_;
  uint64_t calls_ = 0;  // Of all of its daemons.
};

}  // namespace rt::sim
