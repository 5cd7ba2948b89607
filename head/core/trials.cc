// Trials: stopping them, and what follows the end of an attempt.
#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/core/backfill.h"
#include "head/core/draft.h"

namespace rt {

TrialEnd EndFor(StopCause cause) {
  switch (cause) {
    case StopCause::kRule:
    case StopCause::kMaxT:
      return TrialEnd::kCompleted;
    case StopCause::kMetric:
      return TrialEnd::kFailed;
    case StopCause::kNone:
    case StopCause::kEarly:
    case StopCause::kUser:
    case StopCause::kExperiment:
    case StopCause::kBudget:
      return TrialEnd::kStopped;
  }
  return TrialEnd::kStopped;
}

void RequestStop(Draft& draft, TrialId id, StopCause cause, const std::string& reason) {
  const Trial& trial = *FindTrial(draft.state(), id);
  if (!IsOpen(trial)) return;
  draft.Emit(event::TrialStopRequested{id, cause, reason});
  FollowStop(draft, id);
}

void FollowStop(Draft& draft, TrialId id) {
  const Trial& trial = *FindTrial(draft.state(), id);
  const std::string reason = trial.stop_reason;
  if (trial.runs.live() != nullptr) return CancelBackfill(draft, Owner::Of(id), reason);
  draft.Emit(event::TrialEnded{id, EndFor(trial.stop_cause), reason, {}});
  ScheduleAfterEnd(draft, id);
  ProposeTrials(draft, id.experiment);
  MaybeFinish(draft, id.experiment);
}

absl::Status OnStopTrial(Draft& draft, const input::StopTrial& input) {
  if (FindTrial(draft.state(), input.trial) == nullptr) return NotFound("no such trial");
  RequestStop(draft, input.trial, StopCause::kUser, input.reason);
  return absl::OkStatus();
}

void AfterTrialAttempt(Draft& draft, const event::AttemptEnded& ended) {
  TrialId id = ended.attempt.owner.trial();
  const Trial& trial = *FindTrial(draft.state(), id);
  const ExperimentSpec& spec = draft.index().experiments.at(id.experiment).spec;
  auto end = [&](TrialEnd how, const std::string& reason, const ErrorInfo& error = {}) {
    draft.Emit(event::TrialEnded{id, how, reason, error});
  };
  if (trial.stop_cause == StopCause::kMetric) {
    end(TrialEnd::kFailed, trial.stop_reason, {"MetricError", trial.stop_reason, ""});
  } else if (trial.stop_cause != StopCause::kNone) {
    end(EndFor(trial.stop_cause), trial.stop_reason);
  } else {
    switch (ended.outcome) {
      case AttemptOutcome::kSucceeded:
        end(TrialEnd::kCompleted, "");
        break;
      case AttemptOutcome::kStopped:
        end(TrialEnd::kStopped, ended.reason);
        break;
      case AttemptOutcome::kFailed:
      case AttemptOutcome::kLaunchFailed:
        if (const RetryRule* rule = RuleOf(spec, ended.rule);
            rule != nullptr && rule->then == RetryAction::kFail) {
          end(TrialEnd::kFailed, ended.reason, ended.error);
        } else if (!ended.excused && spec.max_failures >= 0 &&
                   trial.runs.failures > static_cast<uint32_t>(spec.max_failures)) {
          end(TrialEnd::kFailed, ended.reason, ended.error);
        }
        break;
      case AttemptOutcome::kHung:
        if (trial.runs.hangs > static_cast<uint32_t>(spec.watchdog.restarts))
          end(TrialEnd::kFailed, ended.reason, ended.error);
        break;
      case AttemptOutcome::kLost:
        if (trial.runs.losses_in_row > limits::kInfraLossesMax)
          end(TrialEnd::kFailed, "its machines were lost too often in a row");
        break;
      case AttemptOutcome::kSuspended:
      case AttemptOutcome::kPreempted:
      case AttemptOutcome::kWithdrawn:
      case AttemptOutcome::kResized: break;
      case AttemptOutcome::kNone:
        RT_CHECK(false);
    }
  }
  ReallocateAfterEnd(draft, id);
  if (draft.state().experiments.at(id.experiment).search.over)
    return MaybeFinish(draft, id.experiment);  // It was retried: the search is over already.
  const TrialEnd ended_as = trial.end;
  if (ended_as != TrialEnd::kNone) ScheduleAfterEnd(draft, id);
  if (ended_as == TrialEnd::kFailed && spec.fail_fast)
    StopExperiment(draft, id.experiment, StopCause::kExperiment,
                   "fail_fast: trial " + ToString(id) + " failed");
  else if (ended_as == TrialEnd::kFailed)
    TryBreaker(draft, id.experiment);
  ReviewTrials(draft, id.experiment);
  ProposeTrials(draft, id.experiment);
  MaybeFinish(draft, id.experiment);
}

}  // namespace rt
