// Jobs: a driver script, owned by the head. One that was lost with its machine is relaunched; one
// that exited by itself is over, whatever its code.
#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/spec/item_name.h"
#include "common/spec/journalled_spec.h"
#include "head/core/draft.h"
#include "head/core/requests.h"

namespace rt {

absl::Status OnSubmitJob(Draft& draft, const input::SubmitJob& input) {
  const State& state = draft.state();
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(input.spec));
  RT_ASSIGN_OR_RETURN(const Request* known,
                      FindRequest(state, input.owner, input.request_key, json));
  if (known != nullptr) {
    if (known->job.value == 0)
      return absl::AlreadyExistsError("the request key was used for an experiment");
    draft.out.answer.job = known->job;
    draft.out.answer.attached = true;
    return absl::OkStatus();
  }
  RT_ASSIGN_OR_RETURN(JobSpec spec, ParseJobSpec(json));
  if (!spec.name.empty()) RT_RETURN_IF_ERROR(CheckItemName("name", spec.name, 'j'));
  RT_RETURN_IF_ERROR(CheckPossible(draft.core, spec.resources));
  JobId id{state.next_job};
  draft.Emit(event::JobSubmitted{id, input.owner, input.spec, input.request_key,
                                 NormalText(spec), kSpecFormat});
  draft.out.answer.job = id;
  return absl::OkStatus();
}

absl::Status OnStopJob(Draft& draft, const input::StopJob& input) {
  auto found = draft.state().jobs.find(input.job);
  if (found == draft.state().jobs.end()) return NotFound("no such job");
  const Job& job = found->second;
  if (job.end != JobEnd::kNone) return absl::OkStatus();
  const std::vector<ExperimentId> experiments = draft.index().jobs[input.job].experiments;
  for (ExperimentId id : experiments)
    StopExperiment(draft, id, StopCause::kUser, "its job was stopped");
  if (job.stop_requested) return absl::OkStatus();
  draft.Emit(event::JobStopRequested{input.job, input.reason});
  if (job.runs.live() == nullptr)
    draft.Emit(event::JobEnded{input.job, JobEnd::kStopped, 0, 0, input.reason});
  return absl::OkStatus();
}

void AfterJobAttempt(Draft& draft, const event::AttemptEnded& ended) {
  const Job& job = draft.state().jobs.at(ended.attempt.owner.job());
  auto end = [&](JobEnd how, const std::string& reason) {
    draft.Emit(event::JobEnded{job.id, how, ended.exit_code, ended.signal, reason});
  };
  if (job.stop_requested) return end(JobEnd::kStopped, job.stop_reason);
  switch (ended.outcome) {
    case AttemptOutcome::kSucceeded:
      return end(JobEnd::kSucceeded, "");
    case AttemptOutcome::kFailed:
    case AttemptOutcome::kLaunchFailed:
      return end(JobEnd::kFailed, ended.reason);
    case AttemptOutcome::kStopped:
      return end(JobEnd::kStopped, ended.reason);
    case AttemptOutcome::kLost:
      if (job.runs.losses_in_row > limits::kInfraLossesMax)
        return end(JobEnd::kFailed, "its machines were lost too often in a row");
      return;  // Waits for another node.
    case AttemptOutcome::kPreempted:
      return;  // Likewise.
    case AttemptOutcome::kHung:       // Jobs have no watchdog,
    case AttemptOutcome::kWithdrawn:  // and are not backfilled.
    case AttemptOutcome::kSuspended:  // Jobs are not paused,
    case AttemptOutcome::kResized:    // nor resized: the head has no checkpoints of theirs.
    case AttemptOutcome::kNone:
      RT_CHECK(false);
  }
}

}  // namespace rt
