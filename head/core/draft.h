// Inside Step: events are applied as they are recorded, so that later decisions of the same Step
// see them. One function per decision, in the file of its noun; step.cc only dispatches.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "head/core/core.h"

namespace rt {

struct Draft {
  Core& core;
  Millis now = 0;
  Outcome out;

  State& state() { return core.world.state; }
  Index& index() { return core.world.index; }
  Soft& soft() { return core.soft; }
  // Applies the event and marks the workers whose desired state it changes.
  void Emit(Event event);
  // Its workers hear of a change at once.
  void MarkDirty(const Owner& owner);
};

// nodes.cc
absl::Status OnSync(Draft& draft, const input::Sync& sync);
void OnDisconnected(Draft& draft, const input::Disconnected& input);
void OnDaemonEnded(Draft& draft, const input::DaemonEnded& input);
absl::Status OnRemoveNode(Draft& draft, const input::RemoveNode& input);
absl::Status OnForgetNode(Draft& draft, const input::ForgetNode& input);
absl::Status OnDrainNode(Draft& draft, const input::DrainNode& input);
absl::Status OnUndrainNode(Draft& draft, const input::UndrainNode& input);
absl::Status OnQuarantineGpu(Draft& draft, const input::QuarantineGpu& input);
// Ends the attempts that are left on nodes whose drain by hand has reached its deadline.
void ExpireDrains(Draft& draft);
void GiveTimeToReturn(Draft& draft);  // To all that were ready before the head started.
void ExpireLeases(Draft& draft);
void ForgiveStall(Draft& draft, Millis stall);  // The head itself was stopped.
// Whether the node may take new work now.
bool MayTakeWork(const Core& core, NodeId node, Millis now);
// Whether an older daemon of the node calls as well as the newest one.
bool HasRival(const Core& core, NodeId node, Millis now);

// history.cc
void OnStartHead(Draft& draft, const input::StartHead& input);
absl::Status CheckHistory(Draft& draft, const input::Sync& sync);  // CheckNewest, and notes it.

// tokens.cc
absl::Status OnCreateToken(Draft& draft, const input::CreateToken& input);
absl::Status OnRevokeToken(Draft& draft, const input::RevokeToken& input);
absl::Status OnUseToken(Draft& draft, const input::UseToken& input);

// pools.cc
absl::Status OnMachinesCreated(Draft& draft, const input::MachinesCreated& input);
absl::Status OnMachinesFailed(Draft& draft, const input::MachinesFailed& input);
absl::Status OnMachinesListed(Draft& draft, const input::MachinesListed& input);
absl::Status OnMachinesTerminated(Draft& draft, const input::MachinesTerminated& input);
absl::Status OnRequestResources(Draft& draft, const input::RequestResources& input);
// Releases machines that are not needed, and asks for those that are.
void ReviewPools(Draft& draft);

// jobs.cc
absl::Status OnSubmitJob(Draft& draft, const input::SubmitJob& input);
absl::Status OnStopJob(Draft& draft, const input::StopJob& input);
void AfterJobAttempt(Draft& draft, const event::AttemptEnded& ended);

// executors.cc
absl::Status OnRequestExecutors(Draft& draft, const input::RequestExecutors& input);
absl::Status OnReleaseExecutors(Draft& draft, const input::ReleaseExecutors& input);
absl::Status OnStopExecutor(Draft& draft, const input::StopExecutor& input);
void OnRenewSession(Draft& draft, const input::RenewSession& input);
void AfterExecutorAttempt(Draft& draft, const event::AttemptEnded& ended);
void GiveTimeToRenew(Draft& draft);  // To all sessions, when a head starts.
void ExpireSessions(Draft& draft);   // Those whose drivers have not been heard for too long.
void EndDelays(Draft& draft);        // Of detached actors that failed.
void ForgiveSessions(Draft& draft, Millis stall);
// Those whose drivers are part of this attempt, which is over.
void EndSessionsOf(Draft& draft, const AttemptId& opener);

// experiments.cc
absl::Status OnCreateExperiment(Draft& draft, const input::CreateExperiment& input);
absl::Status OnStopExperiment(Draft& draft, const input::StopExperiment& input);
void OnSinksFlushed(Draft& draft, const input::SinksFlushed& input);
void StopExperiment(Draft& draft, ExperimentId id, StopCause cause, const std::string& reason);
void MaybeFinish(Draft& draft, ExperimentId id);
// Whether its search algorithm creates no more trials.
bool IsExhausted(const World& world, ExperimentId id);
void CheckBudgets(Draft& draft);

// answers.cc
void ProposeTrials(Draft& draft, ExperimentId id);
void ScheduleAfterEnd(Draft& draft, TrialId ended);  // Asks its scheduler.
// Asks it about trials that it has paused, and, where it clones trials, about the one that has just
// been recorded at a milestone.
void ReviewTrials(Draft& draft, ExperimentId id, std::optional<uint32_t> recorded = {});
// The same at a tick, for a scheduler that waits until the store has a checkpoint.
void ReviewStored(Draft& draft, ExperimentId id);

// lane.cc
absl::Status OnLaneAnswered(Draft& draft, const input::LaneAnswered& input);

// driver_hooks.cc
absl::Status OnAttachDriver(Draft& draft, const input::AttachDriver& input);
absl::Status OnDriverListens(Draft& draft, const input::DriverListens& input);
absl::Status OnAnswerQuestions(Draft& draft, const input::AnswerQuestions& input);

// reallocation.cc
// After the row `seq` of a run, whose checkpoint is announced or committed: whether the run, if it
// is a trial's and has reported nothing since, is paused to get other resources.
void ConsiderReallocation(Draft& draft, const AttemptId& attempt, uint64_t seq);
void ReallocateAfterEnd(Draft& draft, TrialId id);  // Where it was.

// trials.cc
absl::Status OnStopTrial(Draft& draft, const input::StopTrial& input);
void RequestStop(Draft& draft, TrialId id, StopCause cause, const std::string& reason);
// After it was asked to stop: a trial that does not run has ended.
void FollowStop(Draft& draft, TrialId id);
void AfterTrialAttempt(Draft& draft, const event::AttemptEnded& ended);
TrialEnd EndFor(StopCause cause);

// suspend.cc
absl::Status OnPauseExperiment(Draft& draft, const input::PauseExperiment& input);
absl::Status OnResumeExperiment(Draft& draft, const input::ResumeExperiment& input);
absl::Status OnExtendExperiment(Draft& draft, const input::ExtendExperiment& input);
absl::Status OnPauseTrial(Draft& draft, const input::PauseTrial& input);
absl::Status OnResumeTrial(Draft& draft, const input::ResumeTrial& input);
absl::Status OnRetryTrial(Draft& draft, const input::RetryTrial& input);

// attempts.cc
void OnObserved(Draft& draft, NodeId node, const Observed& observed);
// Ends the live attempt and decides what becomes of its owner.
void EndAttempt(Draft& draft, event::AttemptEnded ended);
// Its machine ended it, or one of its machines: all of its ranks are over, here and elsewhere.
void LoseAttempt(Draft& draft, const AttemptId& attempt, const std::string& reason);
// Retries an exit whose last rows had not arrived.
void RetryExit(Draft& draft, NodeId node, const Fence& fence);

// elastic.cc
absl::Status OnElasticAnswered(Draft& draft, const input::ElasticAnswered& input);
// After a placement round: whoever still waits gets the surplus of elastic attempts.
void ShrinkForWaiting(Draft& draft);

// resize.cc
absl::Status OnResizeRun(Draft& draft, const input::ResizeRun& input);
// Gives up, or forces, resizes that cannot be carried out as they were requested.
void ReviewResizes(Draft& draft);
// The ranks of the live generation have saved and ended for a resize: the next one begins, unless
// the attempt is to end, or its capacity is not there any more. False: it does not.
bool BeginGeneration(Draft& draft, const AttemptId& ended);

// reports.cc
absl::Status OnReport(Draft& draft, const input::Report& report);
// `with_checkpoint`: the last row comes with a checkpoint.
ReportVerdict AcceptRows(Draft& draft, NodeId node, const RowBatch& batch,
                         bool with_checkpoint = false);

// checkpoints.cc
absl::Status OnCommitCheckpoint(Draft& draft, const input::CommitCheckpoint& input);
// Commits the collective checkpoints of the attempt that are complete now.
void CommitComplete(Draft& draft, const AttemptId& attempt);
// Retires what the experiment's policy does not keep.
void RetireByPolicy(Draft& draft, const Owner& owner);

// replicas.cc
absl::Status OnRenewReplica(Draft& draft, const input::RenewReplica& input);
absl::Status OnKeepOutputs(Draft& draft, const input::KeepOutputs& input);
// Retires the newest checkpoints that no node and no store has: the next attempt needs one to load.
void RetireUnreachable(Draft& draft, const Owner& owner);

// retry_rules.cc
// The first rule of its experiment that matches the failure, from 1; 0: none.
uint32_t FindRule(const World& world, const Observed& observed);
// What that rule makes of the attempt's end; `node` is where the rank ran that failed.
void FollowRule(const Draft& draft, event::AttemptEnded& ended, NodeId node);
// What its watchdog makes of it.
void FollowHang(const Draft& draft, event::AttemptEnded& ended, NodeId node);
// Preflights in a row that failed, up to the newest attempt that has ended; not those that failed
// for good.
int PreflightsLost(const Runs& runs);
// Excludes `node` after a preflight there that failed without naming a gpu or a link.
void FollowPreflight(const Draft& draft, event::AttemptEnded& ended, NodeId node);
// The rule by which the attempt ended; null: none.
const RetryRule* RuleOf(const ExperimentSpec& spec, uint32_t rule);

// breaker.cc
// After a trial has failed: ends a search whose first trials all failed with the same error soon
// after starting.
void TryBreaker(Draft& draft, ExperimentId id);

// placement.cc
void Place(Draft& draft);
// `start_after`: the attempt whose capacity it gets at that one's end; no owner: it has its own
// now.
void PlaceOn(Draft& draft, const Owner& owner, std::vector<Member> members,
             const AttemptId& start_after);
// Why an owner waits, in one sentence each (head/view/why.h); empty when it does not.
struct Waiting {
  std::string reason;  // Which resource is missing.
  std::string frees;   // What would free it.
};
const ResourceRequest& RequestOf(const World& world, const Owner& owner);
// Nodes on which the owner must not be placed: those excluded for it, while it fits on another; of
// a frozen one, all but its own.
std::set<NodeId> ExcludedFor(const World& world, const Owner& owner);
// Also those that a gang avoids for their slow links (links.h).
std::set<NodeId> AvoidedBy(const World& world, const Owner& owner);

// priorities.cc
// Of its experiment; 0: of a job.
int PriorityOf(const World& world, const Owner& owner);
// An error when the cluster's configuration says which nodes there can be, and the request fits
// neither on one of them nor on a node that joined otherwise. Without a configuration a larger node
// may join at any time: then the owner waits, and WhyWaiting (head/view/why.h) says for what.
absl::Status CheckPossible(const Core& core, const ResourceRequest& wanted);
// OK when the request fits on the known nodes, or on those that the configuration can bring, when
// they are empty; also when no node is known yet.
absl::Status CheckFits(const Core& core, const ResourceRequest& wanted);

}  // namespace rt
