// The breaker of a search: when its first trials all fail with the same error soon after starting,
// the rest would too.
#include "common/base/strings.h"
#include "head/core/draft.h"

namespace rt {
namespace {

constexpr size_t kShownBytesMax = 500;

bool IsAlike(const Trial& a, const Trial& b) {
  if (a.stop_cause != b.stop_cause) return false;
  if (a.stop_cause == StopCause::kMetric) return true;
  const Attempt& left = a.runs.attempts.back();
  const Attempt& right = b.runs.attempts.back();
  return left.outcome == right.outcome && left.exit_code == right.exit_code &&
         left.signal == right.signal && a.error.kind == b.error.kind;
}

// No attempt of it lasted longer; or it failed by its first row, however late that came.
bool FailedWithin(const Trial& trial, Millis within) {
  if (trial.stop_cause == StopCause::kMetric) return true;
  if (trial.runs.attempts.empty()) return false;
  for (const Attempt& attempt : trial.runs.attempts) {
    if (attempt.outcome == AttemptOutcome::kWithdrawn) continue;
    const Millis from = attempt.started_at == 0 ? attempt.placed_at : attempt.started_at;
    if (attempt.ended_at == 0 || attempt.ended_at - from > within) return false;
  }
  return true;
}

}  // namespace

void TryBreaker(Draft& draft, ExperimentId id) {
  const ExperimentIndex& index = draft.index().experiments.at(id);
  const BreakerSpec& breaker = index.spec.breaker;
  const auto wanted = static_cast<uint64_t>(breaker.trials);
  // Just now the last of them has failed, and none has ended otherwise.
  if (wanted == 0 || index.failed != wanted || index.completed + index.stopped > 0) return;
  const std::optional<uint64_t> total = index.spec.TrialsTotal();
  if (total.has_value() && *total <= wanted) return;
  const Trial* first = nullptr;
  for (const Trial& trial : draft.state().experiments.at(id).trials) {
    if (trial.end != TrialEnd::kFailed) continue;
    if (!FailedWithin(trial, breaker.within)) return;
    if (first != nullptr && !IsAlike(*first, trial)) return;
    if (first == nullptr) first = &trial;
  }
  if (first == nullptr) return;
  std::string why = first->reason;
  if (first->error.message != first->reason) {
    if (!first->error.kind.empty()) why += ": " + first->error.kind;
    if (!first->error.message.empty()) why += ": " + first->error.message;
  }
  StopExperiment(draft, id, StopCause::kExperiment,
                 "breaker: its first " + std::to_string(wanted) +
                     " trials all failed with the same error " +
                     (first->stop_cause == StopCause::kMetric ? "in what they report: "
                                                              : "soon after starting: ") +
                     ValidUtf8(why, kShownBytesMax));
}

}  // namespace rt
