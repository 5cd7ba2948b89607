// Knows what is legal. Reads the event stream as it becomes durable, and beside it only the truth
// about programs (what they really reported, how they really ended). Keeps its own, much simpler,
// idea of the world and shares no code with the core, so both would have to be wrong alike.
// Ends the simulation with a sentence at the first thing that is not legal.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "head/core/core.h"
#include "head/core/desired.h"
#include "tests/sim/audited_spec.h"
#include "tests/sim/auditor_books.h"
#include "tests/sim/auditor_elastic.h"
#include "tests/sim/link_book.h"
#include "tests/sim/sim.h"

namespace rt::sim {

class Auditor : private AuditorBooks {
 public:
  // One durable batch, in order.
  void See(const std::vector<Record>& records, const std::vector<RowBatch>& rows,
           const Truth& truth);
  // From here on nothing may be lost: the faults have been over for a while.
  void ExpectCalm() { calm_ = true, calm_since_ = at_; }
  // Executors that have not ended.
  const std::set<ExecutorId>& OpenExecutors() const { return open_executors_; }
  // Of a detached one; empty: it is none.
  std::string ActorOf(ExecutorId id) const {
    return executors_.contains(id) ? executors_.at(id).actor : "";
  }
  // Every trial, job and experiment has come to its end.
  void ExpectAllOver() const;

  bool IsOver(JobId job) const, AllOver() const;
  std::vector<TrialId> PausedTrials() const;
  std::vector<ExperimentId> PausedExperiments() const;
  std::vector<NodeId> DrainedNodes() const, NodesWithSlowLinks() const;  // By a person.
  uint64_t Accepted(const Fence& fence) const;  // Rows settled, of a live or past attempt.
  // What a worker is about to start is what was decided: it goes on from where it should.
  void CheckLaunch(const LaunchSpec& body, const Truth& truth) const;
  // A rank goes on behind a barrier: every rank has arrived there.
  void CheckPassed(const Fence& fence, uint64_t number, const Truth& truth) const;
  // A rank trains with the newest batch of its run: by the history that its attempt goes on from,
  // each row of an epoch is taken once, and no epoch begins before all rows of the last are.
  void CheckTaken(const Fence& fence, const Truth& truth) const;
  // The ranks have read their data set to its end.
  void CheckReadAll(const Fence& fence, const Truth& truth) const;
  // The manifest from which a placed attempt starts; empty: from nothing.
  const std::string& StartOf(const AttemptId& attempt) const {
    return starts_.at(attempt).manifest;
  }
  // Each with the most ranks that it could have on this node alone, or as many as it asked for.
  std::vector<std::pair<TrialId, uint32_t>> LiveTrials(const Resources& node) const;
  bool Knows(ExperimentId id) const { return experiments_.contains(id); }
  bool Knows(JobId id) const { return jobs_.contains(id); }
  // The durable book says that this node has the bytes of a checkpoint that the store lacks.
  bool CountsOn(const Owner& owner, const std::string& manifest, NodeId node) const;
  // Somebody has bytes that are kept and not in the store yet.
  bool AwaitsStore(const Truth& truth) const { return !Awaited(truth).empty(); }
  std::string Awaited(const Truth& truth) const;
  // What the head answered that it keeps, it does, unless a later attempt wrote something as well.
  bool KeepsOutputs(const Fence& fence, const std::string& manifest) const;
  // Of the durable book: what a cloud may have.
  bool IsLiveMachine(uint64_t machine) const {
    return machines_.contains(machine) && !machines_.at(machine).released;
  }
  size_t LiveMachines() const;
  size_t LiveMachines(const std::string& pool) const;
  // Those that are being removed included, until the cloud does not have them any more.
  size_t MachinesThere() const { return machines_.size(); }
  size_t MachinesThere(const std::string& pool) const;
  size_t PendingMachines(const std::string& pool) const;  // Live, and its node was never ready.
  bool AwaitsNodeOf(const PoolSpec& pool) const;  // Something waits that one node of it holds.
  // At the end.
  void ExpectOutputs(const State& state) const;
  std::string Unfinished() const;  // For the message when a run is stuck.
  uint64_t rungs_checked() const { return rungs_checked_; }

 private:
  void On(const event::HeadStarted& e);
  void On(const event::HeadRolledBack& e);
  void On(const event::TokenCreated& e);
  void On(const event::TokenUsed& e);
  void On(const event::TokenRevoked& e);
  void On(const event::NodeJoined& e);
  void On(const event::NodeReady& e);
  void On(const event::NodeAway& e);
  void On(const event::NodeLost& e);
  void On(const event::NodeDraining& e);
  void On(const event::NodeResumed& e);
  void On(const event::GpuCleared& e);
  void On(const event::GpuFaultFound& e);
  void On(const event::LinkFoundSlow& e);
  void On(const event::LinkCleared& e);
  void On(const event::LinkRetried& e);
  void NoteQuarantines(NodeBook& node);
  void On(const event::NodeGone& e);
  void On(const event::MachinesRequested& e);
  void On(const event::MachinesCreated& e);
  void On(const event::MachinesFailed& e);
  void On(const event::MachineReleased& e);
  void On(const event::MachineDeleted& e);
  void On(const event::ResourcesRequested& e);
  void On(const event::JobSubmitted& e);
  void On(const event::JobStopRequested& e);
  void On(const event::JobEnded& e);
  void On(const event::ExecutorRequested& e);
  void On(const event::ExecutorReleaseRequested& e);
  void On(const event::ExecutorDelayed& e);
  void On(const event::ExecutorEnded& e);
  void On(const event::ExperimentCreated& e);
  void On(const event::ExperimentStopRequested& e);
  void On(const event::ExperimentFinishing& e);
  void On(const event::ExperimentFinished& e);
  void On(const event::PreemptionRequested& e);
  void On(const event::TrialCreated& e);
  void On(const event::TrialStopRequested& e);
  void On(const event::TrialEnded& e);
  void On(const event::AttemptPlaced& e);
  void On(const event::AttemptStarted& e);
  void On(const event::AttemptEnded& e);
  void On(const event::AttemptFreezeRequested& e);
  void On(const event::AttemptFrozen& e);
  void On(const event::AttemptThawed& e);
  void On(const event::AttemptFreezeGivenUp& e);
  void On(const event::AttemptResizeRequested& e);
  void On(const event::AttemptResizeForced& e);
  void On(const event::AttemptResizeGivenUp& e);
  void On(const event::AttemptResized& e);
  void On(const event::ProfileRecorded& e);
  void On(const event::SizesAnswered& e);
  void On(const event::PortAgreed& e);
  void On(const event::RankExited& e);
  void On(const event::ReportsAccepted& e);
  void On(const event::RungRecorded& e);
  void On(const event::CheckpointCommitted& e);
  void On(const event::CheckpointShardCommitted& e);
  void On(const event::CheckpointStored& e);
  void On(const event::CheckpointReplicaLost& e);
  void On(const event::CheckpointReleased& e);
  void On(const event::CheckpointRetired& e);
  void On(const event::OutputsKept& e);
  void On(const event::ExperimentPaused& e);
  void On(const event::ExperimentResumed& e);
  void On(const event::ExperimentExtended& e);
  void On(const event::ExperimentReopened& e);
  void On(const event::TrialPaused& e);
  void On(const event::TrialResumed& e);
  void On(const event::TrialReallocated& e);
  void On(const event::TrialRetried& e);
  void On(const event::DriverAttached& e);
  void On(const event::DriverAnswered& e);
  void On(const event::SearchFinished& e);
  void On(const event::Answered& e);
  void On(const event::StopKeyReported& e);

  uint32_t RuleFor(const Fence& fence) const;
  void CheckRule(const event::AttemptEnded& e, OwnerBook& owner);
  void CheckAvoided(const event::AttemptPlaced& e, const OwnerBook& owner) const;
  static bool Waits(const OwnerBook& runs);
  void CheckFirst(TrialId id) const;
  void CheckBreaker(const ExperimentBook& experiment) const;
  void CheckBytes(const event::CheckpointCommitted& e, const OwnerBook& owner) const;
  bool Counts(NodeId id) const;
  bool IsWithin(const CheckpointBook& book) const;
  bool IsRotten(const std::string& manifest, NodeId node) const;
  static bool IsWorse(const CheckpointBook& a, const CheckpointBook& b, const AuditedSpec& spec);
  static bool IsBest(const CheckpointBook& book, const OwnerBook& owner, const AuditedSpec& spec);
  static std::set<uint64_t> NeededOf(const OwnerBook& owner);
  CheckpointBook& ReplicatedOf(const Owner& owner, uint64_t checkpoint);
  std::vector<ElasticRun> ElasticRuns() const;
  void NoteElastic();
  std::vector<ElasticShareBook> SharesOf(const SharedGroup& group, uint64_t through) const;
  void CheckShares(const SharedGroup& group, const std::vector<ElasticShareBook>& shares) const;
  bool AwaitsFrom(int64_t priority) const;
  void CheckElastic(const AttemptId& attempt, const OwnerBook& owner, uint32_t size) const;
  void CheckKeeps(const event::AttemptResizeRequested& e, const OwnerBook& owner) const;
  void CheckResizeExit(const Fence& fence, const OwnerBook& owner) const;
  bool HasSavedToMove(const OwnerBook& owner, const AttemptId& attempt) const;
  void CheckAllEnded(const OwnerBook& owner, const AttemptId& attempt) const;
  void CheckResizes() const;
  void CheckResizeOf(const OwnerBook& owner) const;
  void ReleaseClaims(OwnerBook& owner, const AttemptId& attempt);
  void Add(const Member& member, const Resources& asks);
  void Return(const Member& member, const Resources& asks);
  void Begin(OwnerBook& owner, const AttemptId& attempt, uint64_t checkpoint);
  void Supersede(TrialBook& trial) const;
  void CheckComplete(const event::CheckpointCommitted& e, OwnerBook& owner);
  void CheckEvicted(const Fence& fence, const OwnerBook& owner) const;
  void CheckDrains() const, ExpectQuarantines() const;
  void CheckGang(const event::AttemptPlaced& e, const AuditedAsks& asks) const;
  void CheckLinks(const AttemptId& attempt, const std::set<NodeId>& nodes) const;
  bool MayAvoidLinks(const ExperimentBook& experiment) const;
  void CheckMeeting(const LaunchSpec& body) const;
  void CheckGangEnd(const event::AttemptEnded& e, const OwnerBook& owner);
  std::set<uint64_t> RowsTaken(const AttemptId& attempt, uint64_t epoch, const Truth& truth) const;
  void CheckFrozenEnd(const event::AttemptEnded& e, const OwnerBook& owner) const;
  void CheckExit(const Fence& fence, AttemptOutcome outcome, const OwnerBook& owner) const;
  void CheckBroken();
  void TakeGpus(NodeBook& node, const Member& member, const Resources& asks);
  void Take(const Member& member, const AttemptId& attempt, const Resources& asks);
  void Hold(const Member& member, const AttemptId& attempt, const Resources& asks);
  void Release(OwnerBook& owner, const AttemptId& attempt);
  void CheckBackfill(const event::AttemptPlaced& e, const OwnerBook& owner);
  void DropBackfill(const AttemptId& attempt, const Member& member);
  void Inherit(const AttemptId& attempt);
  void CheckWithdrawn(const event::AttemptEnded& e, const OwnerBook& owner) const;
  using RungBook = std::vector<std::pair<uint32_t, double>>;  // Trials and their values.
  static std::optional<bool> GateAt(const ExperimentBook& experiment, uint32_t bracket,
                                    double milestone);
  static bool IsRankedAlike(const RungBook& lower, const RungBook& upper, double tolerance);
  static bool IsMisleading(const RungBook& lower, const RungBook& upper, double factor);
  static bool IsInTop(const ExperimentBook& experiment, uint32_t number);
  static bool IsInTop(const ExperimentBook& experiment, uint32_t number, std::optional<bool> gate);
  static bool HasNoCheckpoint(const OwnerBook& runs);
  static bool SearchMayWait(const ExperimentBook& experiment);
  static bool IsIdle(const ExperimentBook& experiment);
  void NoteMember(const event::RungRecorded& e, ExperimentBook& experiment, TrialBook& trial);
  void CheckWaiting(TrialId id);
  void CheckHalvings(const event::Answered& e);
  void CheckHalving(const ExperimentBook& experiment, uint32_t bracket,
                    const std::set<uint32_t>& stopped, const std::set<uint32_t>& resumed);
  static bool IsLastOfBracket(const ExperimentBook& experiment, const TrialBook& trial);
  void CheckWaits(const ExperimentBook& experiment) const;
  void FollowMedian(const ExperimentBook& experiment, TrialBook& trial, double time, double value);
  double IntervalAt(const AuditedSpec& spec, double iteration) const;
  void NoteCompared(const event::RungRecorded& e, const ExperimentBook& experiment,
                    TrialBook& trial);
  void CheckCompared(const AuditedSpec& spec, const TrialBook& trial) const;
  void CheckQuantiles(const ExperimentBook& experiment, const ClonedTrial& clone) const;
  static bool IsAnyQueued(const ExperimentBook& experiment);
  void BeginReallocation(TrialId id), CheckTurn(TrialId id);
  void Allocate(const event::Answered& e, const AllocatedTrial& given);
  void CheckAllocated(const TrialBook& trial, const event::TrialReallocated& e) const;
  bool IsFreeOnANode(const Resources& asked) const;
  void CheckTurns(const event::Answered& e);
  void CheckMutated(const std::string& parent, const std::string& params) const;
  void Clone(ExperimentId id, const ClonedTrial& clone);
  void CheckAsked(const event::Answered& e);
  void CheckExplored(const event::Answered& e);
  static void CloseQuestions(ExperimentBook& experiment, uint64_t through);
  static void DropQuestions(ExperimentBook& experiment, uint32_t cloned);
  void CheckHeld(TrialId id);
  void CheckPromotion(TrialId id);
  void CheckUnpromoted(const event::Answered& e);
  void CheckPromotions(const ExperimentBook& experiment) const;
  TrialBook& Touch(TrialId id);
  void CheckRows(const event::ReportsAccepted& e, const RowBatch& batch, TrialBook* trial);
  void DecideRows(ExperimentBook& experiment, uint64_t through);
  void CheckProposals(const event::Answered& e) const;
  void CheckToldRungs(const event::Answered& e) const;
  // Whether a configuration has the parameters that the space asks for, and no others.
  void CheckShape(const Json& space, const Json& params) const;
  void CheckDecided(const event::ReportsAccepted& e, const RowBatch& batch);
  static void FollowBest(ExperimentBook& experiment, TrialBook& trial, const Row& row, double loss);
  void CheckPlateau(const ExperimentBook& experiment) const;
  static bool IsOnPlateau(const AuditedSpec& spec, const TrialBook& trial, const AttemptId& id);
  void CheckBest(const event::ReportsAccepted& e, const TrialBook& trial, bool maximise,
                 double loss_max) const;
  void CheckStart(TrialId id);
  void CheckKept(const Owner& owner);
  void CheckKeys(ExperimentId id, const TrialBook& trial);
  void CheckTrial(ExperimentBook& experiment, TrialBook& trial);
  void EndTransaction();
  void CheckOutcome(const event::AttemptEnded& e, const OwnerBook& owner) const;

  bool MayLeave(NodeId id, const NodeBook& node) const;
  void CheckIdle(const MachineBook& machine) const;
  void CheckNotRequested(NodeId idle) const;
  size_t WaitingBundles() const;
  size_t StayingMachines(const std::string& pool) const;  // Live, and their nodes do not drain.
  bool HasOnlyCopy(NodeId id) const;
  NodeBook& NodeOf(NodeId id);
  ExperimentBook& ExperimentOf(ExperimentId id);
  TrialBook& TrialOf(TrialId id);
  OwnerBook& OwnerOf(const Owner& owner);
  ExecutorBook& ExecutorOf(ExecutorId id);
  bool IsLive(const AttemptId& attempt);
  Millis HeardAt(const TruthSession& session) const;
  void NoteExecutorEnd(const event::AttemptEnded& e);
  void CheckExecutorPlaced(const event::AttemptPlaced& e);
  void CheckSessions();
  bool Asked(const std::string& what, const std::string& id) const;
  OwnerBook& LiveOf(const AttemptId& attempt);
  void Must(bool ok, const char* rule) const;

  ElasticBook elastic_;
  const Record* record_ = nullptr;  // The one that is being looked at.
  const Truth* truth_ = nullptr;
  const std::vector<RowBatch>* rows_ = nullptr;
  size_t next_rows_ = 0;
  bool calm_ = false;
  uint64_t head_seq_ = 0;  // Of the newest HeadStarted.
  uint64_t seq_ = 0, epoch_ = 0, newest_node_ = 0, newest_job_ = 0, newest_experiment_ = 0;
  Millis at_ = 0;
  std::map<std::string, event::TokenCreated> tokens_;
  std::string joining_as_;        // The name of the token used last,
  uint64_t joining_machine_ = 0;  // and its machine.
  std::map<uint64_t, MachineBook> machines_;
  uint64_t newest_machine_ = 0;
  std::vector<RequestedBundles> requested_;
  std::set<std::string> tokens_seen_, results_dirs_;
  std::set<std::pair<std::string, std::string>> keys_;  // Request keys, by their users.
  std::map<NodeId, NodeBook> nodes_;
  std::map<JobId, JobBook> jobs_;
  std::map<ExecutorId, ExecutorBook> executors_;
  std::set<ExecutorId> open_executors_;
  uint64_t newest_executor_ = 0;
  std::map<std::pair<TruthSession, std::string>, uint64_t> granted_;  // By session and key.
  std::set<std::pair<std::string, std::string>> actors_;  // Detached and open: user, name.
  Millis head_at_ = 0, calm_since_ = 0;
  std::map<ExperimentId, ExperimentBook> experiments_;
  std::map<Fence, uint64_t> accepted_;
  std::map<AttemptId, std::pair<uint32_t, uint32_t>> meetings_;  // Port, once agreed, and ranks.
  std::map<AttemptId, Start> starts_;
  // Backfilled attempts: the one before, the one behind.
  std::map<AttemptId, AttemptId> backfill_before_, backfill_next_;
  std::set<std::pair<ExperimentId, std::string>> new_keys_;  // Noted in this transaction.
  std::set<TrialId> touched_;  // Trials with rows or rungs in this transaction.
  // Owners in it whose kept checkpoints may have to change: one was committed, holders had news, or
  // ranks began or ended.
  std::set<Owner> committed_;
  std::set<Owner> abandoned_;  // Owners whose newest checkpoint nobody has, in it.
  // Attempts that ended before all of their ranks had, with their nodes.
  std::map<AttemptId, std::set<NodeId>> broken_;
  std::set<NodeId> lost_nodes_;   // In this transaction.
  std::map<std::pair<NodeId, NodeId>, LinkBook> slow_links_;  // Node 0: to all other nodes.
  uint64_t rungs_checked_ = 0;
};

}  // namespace rt::sim
