// What is legal about executors, from docs/adr/0041 alone.
#include "tests/sim/auditor.h"

namespace rt::sim {

namespace {

// How late an awake head may notice that a session's lease ran out: ticks queue behind appends.
constexpr Millis kLeaseSlack = 3'000;
// The same for the end of a pause, also while heads and journals stand still.
constexpr Millis kPauseSlack = 20'000;

// What a detached actor waits after so many failures in a row, each within a minute of its start:
// nothing, 1 s, 2 s, 4 s, and so on to a minute.
Millis PauseOwed(uint64_t failures) {
  Millis pause = failures < 2 ? 0 : 1'000;
  for (uint64_t i = 2; i < failures && pause < 60'000; ++i) pause *= 2;
  return std::min<Millis>(pause, 60'000);
}

}  // namespace

Auditor::ExecutorBook& Auditor::ExecutorOf(ExecutorId id) {
  Must(executors_.contains(id), "the executor is known");
  return executors_.at(id);
}

void Auditor::On(const event::ExecutorRequested& e) {
  Must(e.executor.value > newest_executor_, "executor numbers grow");
  newest_executor_ = e.executor.value;
  const TruthSession session{e.opener.owner, e.owner, e.session};
  const auto asked = truth_->executor_requests.find({session, e.request_key});
  Must(asked != truth_->executor_requests.end(), "somebody asked for the executor");
  uint64_t& granted = granted_[{session, e.request_key}];
  Must(++granted <= asked->second.count, "an executor is granted once");
  if (e.opener.owner.kind != Owner::Kind::kNone) LiveOf(e.opener);
  ExecutorBook& executor = executors_[e.executor];
  executor.session = session;
  executor.opener = e.opener;
  executor.detached = asked->second.detached;
  executor.max_restarts = asked->second.max_restarts;
  executor.runs.asks = AuditedSpec::FromJob(asked->second.spec).asks;
  open_executors_.insert(e.executor);
  if (!executor.detached) return;
  executor.actor = asked->second.actor;
  Must(actors_.insert({e.owner, executor.actor}).second, "a detached actor's name is taken once");
}

void Auditor::On(const event::ExecutorReleaseRequested& e) {
  ExecutorBook& executor = ExecutorOf(e.executor);
  OwnerBook& runs = executor.runs;
  Must(!runs.over && !runs.stop_requested, "an executor is released once, while it is open");
  runs.stop_requested = true;
  const bool is_asked =
      truth_->executor_stops.contains(e.executor) || truth_->actor_stops.contains(executor.actor);
  if (is_asked) return;
  Must(!executor.detached, "a detached actor outlives its session");
  if (truth_->session_stops.contains(executor.session)) return;
  if (executor.opener.owner.kind != Owner::Kind::kNone && !IsLive(executor.opener)) return;
  Must(at_ - HeardAt(executor.session) > 30'000,
       "an executor is released by its driver, or after its session");
}

void Auditor::NoteExecutorEnd(const event::AttemptEnded& e) {
  ExecutorBook& executor = ExecutorOf(e.attempt.owner.executor());
  const bool failed =
      e.outcome == AttemptOutcome::kFailed || e.outcome == AttemptOutcome::kLaunchFailed;
  const bool was_quick = executor.started_at == 0 || at_ - executor.started_at < 60'000;
  if (failed) executor.quick_failures = was_quick ? executor.quick_failures + 1 : 0;
  if (failed) executor.failed_at = at_;
  const auto run = truth_->runs.find({e.attempt, 0});
  const bool has_raised = run != truth_->runs.end() && run->second.raised;
  Must(e.error.traceback.empty() || has_raised, "an error of an actor was raised");
  executor.has_raised = executor.detached && failed && has_raised;
  executor.started_at = 0;
}

// Its failure announces a pause, and the end of the pause is said once.
void Auditor::On(const event::ExecutorDelayed& e) {
  ExecutorBook& executor = ExecutorOf(e.executor);
  Must(executor.detached && !executor.runs.over && !executor.runs.live,
       "only a detached actor that does not run is delayed");
  const Millis until = executor.failed_at + PauseOwed(executor.quick_failures);
  Must(executor.is_delayed == (e.until == 0), "a pause is announced, and ends once");
  Must(e.until == 0 || (e.until == until && at_ == executor.failed_at),
       "an actor pauses for as long as its failures in a row say");
  Must(e.until != 0 || at_ >= until, "a pause is not cut short");
  executor.is_delayed = e.until != 0;
}

void Auditor::On(const event::ExecutorEnded& e) {
  ExecutorBook& executor = ExecutorOf(e.executor);
  OwnerBook& runs = executor.runs;
  Must(!runs.over, "an executor ends once");
  Must(!runs.live, "an executor that ended has no live attempt");
  const AttemptOutcome last = runs.last_outcome;
  const bool failed = last == AttemptOutcome::kFailed || last == AttemptOutcome::kLaunchFailed;
  switch (e.end) {
    case ExecutorEnd::kSucceeded:
      Must(last == AttemptOutcome::kSucceeded, "an executor succeeds when its process did");
      break;
    case ExecutorEnd::kFailed:
      Must(failed || (executor.detached && last == AttemptOutcome::kLost),
           "an executor fails by its own fault");
      Must(!executor.detached || last == AttemptOutcome::kLost || executor.has_raised ||
               (executor.max_restarts >= 0 && runs.failures > executor.max_restarts),
           "a detached actor is restarted as often as it may be");
      Must(e.error.traceback.empty() != executor.has_raised,
           "the end of an actor says what its constructor raised");
      break;
    case ExecutorEnd::kStopped:
      Must(runs.stop_requested, "only who was released is STOPPED");
      break;
    case ExecutorEnd::kLost:
      Must(!executor.detached, "a detached actor that was lost is placed again");
      Must(last == AttemptOutcome::kLost || last == AttemptOutcome::kPreempted,
           "an executor is lost with its node");
      break;
    case ExecutorEnd::kNone: Must(false, "an executor ends somehow");
  }
  runs.over = true;
  open_executors_.erase(e.executor);
  if (executor.detached) actors_.erase({executor.session.user, executor.actor});
}

// Called for each placement of one.
void Auditor::CheckExecutorPlaced(const event::AttemptPlaced& e) {
  const ExecutorBook& executor = ExecutorOf(e.attempt.owner.executor());
  Must(executor.detached || executor.runs.number == 0, "an executor is not placed again");
  Must(!executor.has_raised, "an actor whose constructor raised is not placed again");
  Must(!executor.is_delayed && at_ - executor.failed_at >= PauseOwed(executor.quick_failures),
       "an actor that fails over and over is not placed before its pause is over");
  Must(executor.max_restarts < 0 || executor.runs.failures <= executor.max_restarts,
       "a detached actor is restarted as often as it may be");
}

// By this head; a head that has just started counts from there.
Millis Auditor::HeardAt(const TruthSession& session) const {
  const auto heard = truth_->session_heard.find(session);
  const bool is_by_this_head =
      heard != truth_->session_heard.end() && heard->second.epoch == epoch_;
  return is_by_this_head ? std::max(head_at_, heard->second.at) : head_at_;
}

bool Auditor::IsLive(const AttemptId& attempt) {
  const OwnerBook& owner = OwnerOf(attempt.owner);
  return (owner.live || owner.frozen) && owner.number == attempt.number &&
         owner.generation == attempt.generation;
}

void Auditor::CheckSessions() {
  for (ExecutorId id : open_executors_) {
    const ExecutorBook& executor = executors_.at(id);
    if (executor.runs.stop_requested) continue;
    const bool may_wait = executor.detached || executor.runs.live || executor.runs.number == 0;
    Must(may_wait, "an executor whose process has ended is over");
    Must(!executor.has_raised, "an actor whose constructor raised is over");
    const Millis paused_to = executor.failed_at + PauseOwed(executor.quick_failures);
    Must(!executor.is_delayed || at_ - std::max(paused_to, head_at_) <= kPauseSlack,
         "a pause ends");
    if (executor.detached) continue;
    Must(executor.opener.owner.kind == Owner::Kind::kNone || IsLive(executor.opener),
         "no executor outlives the attempt that opened its session");
    if (!calm_) continue;
    const Millis since = HeardAt(executor.session);
    Must(at_ - std::max(since, calm_since_) <= 30'000 + kLeaseSlack,
         "no executor outlives its session");
  }
}

}  // namespace rt::sim
