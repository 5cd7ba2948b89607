// Dispatch only: which noun decides about which input, and what follows every input.
#include <algorithm>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/overloaded.h"
#include "head/core/backfill.h"
#include "head/core/core.h"
#include "head/core/draft.h"
#include "head/core/event_table.h"
#include "head/core/freeze.h"
#include "head/core/links.h"

namespace rt {
namespace {

absl::Status OnNodeLogsFetched(Draft& draft, const input::NodeLogsFetched& input) {
  if (draft.soft().leaving.contains(input.node)) draft.soft().logs_fetched.insert(input.node);
  return absl::OkStatus();
}

absl::Status OnTick(Draft& draft) {
  CheckBudgets(draft);
  ExpireDrains(draft);
  ExpireSessions(draft);
  EndDelays(draft);
  ReviewLinks(draft);
  ReviewBackfills(draft);
  const std::set<ExperimentId> open = draft.index().open_experiments;  // Copy: edited below.
  for (ExperimentId id : open) {
    ReviewStored(draft, id);
    ProposeTrials(draft, id);
  }
  return absl::OkStatus();
}

absl::Status Dispatch(Draft& d, const Input& input) {
  return std::visit(
      Overloaded{
          [&](const input::StartHead& m) {
            OnStartHead(d, m);
            return absl::OkStatus();
          },
          [&](const input::CreateToken& m) { return OnCreateToken(d, m); },
          [&](const input::RevokeToken& m) { return OnRevokeToken(d, m); },
          [&](const input::UseToken& m) { return OnUseToken(d, m); },
          [&](const input::Sync& m) { return OnSync(d, m); },
          [&](const input::Disconnected& m) {
            OnDisconnected(d, m);
            return absl::OkStatus();
          },
          [&](const input::DaemonEnded& m) {
            OnDaemonEnded(d, m);
            return absl::OkStatus();
          },
          [&](const input::RemoveNode& m) { return OnRemoveNode(d, m); },
          [&](const input::DrainNode& m) { return OnDrainNode(d, m); },
          [&](const input::UndrainNode& m) { return OnUndrainNode(d, m); },
          [&](const input::QuarantineGpu& m) { return OnQuarantineGpu(d, m); },
          [&](const input::ForgetNode& m) { return OnForgetNode(d, m); },
          [&](const input::Report& m) { return OnReport(d, m); },
          [&](const input::CommitCheckpoint& m) { return OnCommitCheckpoint(d, m); },
          [&](const input::RenewReplica& m) { return OnRenewReplica(d, m); },
          [&](const input::KeepOutputs& m) { return OnKeepOutputs(d, m); },
          [&](const input::SubmitJob& m) { return OnSubmitJob(d, m); },
          [&](const input::StopJob& m) { return OnStopJob(d, m); },
          [&](const input::RequestExecutors& m) { return OnRequestExecutors(d, m); },
          [&](const input::RenewSession& m) { return OnRenewSession(d, m), absl::OkStatus(); },
          [&](const input::ReleaseExecutors& m) { return OnReleaseExecutors(d, m); },
          [&](const input::StopExecutor& m) { return OnStopExecutor(d, m); },
          [&](const input::CreateExperiment& m) { return OnCreateExperiment(d, m); },
          [&](const input::StopExperiment& m) { return OnStopExperiment(d, m); },
          [&](const input::StopTrial& m) { return OnStopTrial(d, m); },
          [&](const input::PauseExperiment& m) { return OnPauseExperiment(d, m); },
          [&](const input::ResumeExperiment& m) { return OnResumeExperiment(d, m); },
          [&](const input::ExtendExperiment& m) { return OnExtendExperiment(d, m); },
          [&](const input::PauseTrial& m) { return OnPauseTrial(d, m); },
          [&](const input::ResumeTrial& m) { return OnResumeTrial(d, m); },
          [&](const input::RetryTrial& m) { return OnRetryTrial(d, m); },
          [&](const input::ResizeRun& m) { return OnResizeRun(d, m); },
          [&](const input::AttachDriver& m) { return OnAttachDriver(d, m); },
          [&](const input::DriverListens& m) { return OnDriverListens(d, m); },
          [&](const input::AnswerQuestions& m) { return OnAnswerQuestions(d, m); },
          [&](const input::LaneAnswered& m) { return OnLaneAnswered(d, m); },
          [&](const input::ElasticAnswered& m) { return OnElasticAnswered(d, m); },
          [&](const input::SinksFlushed& m) {
            OnSinksFlushed(d, m);
            return absl::OkStatus();
          },
          [&](const input::MachinesCreated& m) { return OnMachinesCreated(d, m); },
          [&](const input::MachinesFailed& m) { return OnMachinesFailed(d, m); },
          [&](const input::MachinesListed& m) { return OnMachinesListed(d, m); },
          [&](const input::MachinesTerminated& m) { return OnMachinesTerminated(d, m); },
          [&](const input::RequestResources& m) { return OnRequestResources(d, m); },
          [&](const input::NodeLogsFetched& m) { return OnNodeLogsFetched(d, m); },
          [&](const input::SetPools& m) {
            for (const PoolSpec& pool : m.pools) d.soft().pools[pool.name] = pool;
            return absl::OkStatus();
          },
          [&](const input::Tick&) { return OnTick(d); },
      },
      input);
}

// A replacement is asked for with the notice, and not with the next tick.
bool ChangesDemand(const Record& record) {
  return std::holds_alternative<event::NodeDraining>(record.event) ||
         std::holds_alternative<event::NodeLost>(record.event) ||
         std::holds_alternative<event::ResourcesRequested>(record.event);
}

}  // namespace

void Draft::MarkDirty(const Owner& owner) {
  const Runs* runs = FindRuns(state(), owner);
  const Attempt* live = runs == nullptr ? nullptr : runs->live();
  if (live == nullptr) return;
  for (const Member& member : live->members) soft().dirty.insert(member.node);
}

void Draft::Emit(Event event) {
  const EventMeaning meaning = MeaningOf(event);
  Record record{state().seq + 1, now, std::move(event)};
  for (const Owner& owner : meaning.owners) MarkDirty(owner);
  Apply(core.world, record);
  for (const Owner& owner : meaning.owners) MarkDirty(owner);
  if (meaning.invites_placement) soft().try_place = true;
  out.records.push_back(std::move(record));
}

Millis StartTime(const State& state, Millis wall) { return std::max(wall, state.time); }

Outcome Step(Core& core, const Input& input, Millis now) {
  now = std::max({now, core.world.state.time, core.soft.last_step_at});
  Draft draft{core, now, {}};
  Millis gap = core.soft.last_step_at == 0 ? 0 : now - core.soft.last_step_at;
  core.soft.last_step_at = now;
  if (gap > limits::kStallAfter) {
    ForgiveStall(draft, gap);
    ForgiveSessions(draft, gap);
  }
  draft.out.verdict = Dispatch(draft, input);
  RT_CHECK(draft.out.verdict.ok() || draft.out.records.empty());
  ExpireLeases(draft);
  ReviewResizes(draft);
  ReviewFreezes(draft);
  if (core.soft.try_place) {
    Place(draft);
    ShrinkForWaiting(draft);
  }
  const std::vector<Record>& records = draft.out.records;
  if (std::holds_alternative<input::Tick>(input) ||
      std::any_of(records.begin(), records.end(), ChangesDemand))
    ReviewPools(draft);  // Of what is still waiting.
  return std::move(draft.out);
}

std::optional<Millis> NextDeadline(const Core& core) {
  if (core.soft.deadlines.empty()) return std::nullopt;
  return core.soft.deadlines.begin()->first;
}

}  // namespace rt
