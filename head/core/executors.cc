// Executors: what a driver's session asks for, and when it ends. An executor is not placed again,
// unless it is a detached actor: its driver asks for another one.
#include <algorithm>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/limits_executors.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/journalled_spec.h"
#include "head/core/draft.h"
#include "head/core/executor_index.h"

namespace rt {
namespace {

absl::Status CheckSessionName(const std::string& name) {
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (!name.empty() && name.size() <= limits::kSessionNameMax && is_plain) return absl::OkStatus();
  return Invalid("session must be 1 to " + std::to_string(limits::kSessionNameMax) +
                 " of the characters a-z, 0-9 and -");
}

absl::Status CheckSpace(const World& world, const SessionKey& key, size_t count) {
  const ExecutorIndex& index = world.index.executors;
  const SessionIndex* session = FindSession(world, key);
  const size_t open = session == nullptr ? 0 : session->open;
  if (open + count > limits::kExecutorsPerSession)
    return absl::ResourceExhaustedError("the session has " + std::to_string(open) +
                                        " executors that have not ended, and may have " +
                                        std::to_string(limits::kExecutorsPerSession));
  if (index.open + count > limits::kExecutorsMax)
    return absl::ResourceExhaustedError("the cluster has " + std::to_string(index.open) +
                                        " executors that have not ended, and may have " +
                                        std::to_string(limits::kExecutorsMax));
  return absl::OkStatus();
}

absl::Status CheckDetached(const World& world, const std::string& user, const ExecutorSpec& spec,
                           int64_t count) {
  if (!spec.detached) return absl::OkStatus();
  if (count != 1) return Invalid("count must be 1 of a detached actor, which has a name");
  const auto& actors = world.index.executors.actors;
  if (const auto known = actors.find({user, spec.actor_name}); known != actors.end())
    return WithHint(absl::AlreadyExistsError("there is an actor '" + spec.actor_name +
                                             "' already: " + Describe(Owner::Of(known->second))),
                    "take it with get_actor, or kill it first");
  const auto from = actors.lower_bound({user, ""});
  const auto to =
      std::find_if(from, actors.end(), [&](const auto& one) { return one.first.first != user; });
  if (static_cast<size_t>(std::distance(from, to)) < limits::kDetachedPerUser)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "a user may have " + std::to_string(limits::kDetachedPerUser) + " detached actors");
}

// What the session's key was answered with; empty: it is new.
absl::StatusOr<std::vector<ExecutorId>> FindAsked(const World& world, const SessionKey& key,
                                                  const input::RequestExecutors& input) {
  const SessionIndex* session = FindSession(world, key);
  if (session == nullptr || input.request_key.empty()) return std::vector<ExecutorId>();
  const auto known = session->by_key.find(input.request_key);
  if (known == session->by_key.end()) return std::vector<ExecutorId>();
  if (known->second.size() == static_cast<size_t>(input.count)) return known->second;
  return absl::AlreadyExistsError("the key was used for a request of " +
                                  std::to_string(known->second.size()) + " executors");
}

void Release(Draft& draft, ExecutorId id, const std::string& reason) {
  const Executor& executor = draft.state().executors.at(id);
  if (executor.is_over() || executor.release_requested) return;
  draft.Emit(event::ExecutorReleaseRequested{id, reason});
  if (executor.runs.live() == nullptr)
    draft.Emit(event::ExecutorEnded{id, ExecutorEnd::kStopped, 0, 0, reason, {}});
}

void EndSession(Draft& draft, const SessionKey& key, const std::string& reason) {
  const SessionIndex* session = FindSession(draft.core.world, key);
  if (session == nullptr) return;
  const std::set<ExecutorId> executors = session->executors;  // Copy: Release may forget some.
  for (ExecutorId id : executors) {
    const auto found = draft.state().executors.find(id);
    if (found != draft.state().executors.end() && !found->second.detached)
      Release(draft, id, reason);
  }
}

// The process of an actor reports an error when its constructor raised, which would raise again.
// Only a process that reports its error has a traceback of it.
bool HasRaised(const event::AttemptEnded& ended) { return !ended.error.traceback.empty(); }

ErrorInfo Bounded(const ErrorInfo& error) {
  return {error.kind, ValidUtf8(error.message, limits::kReasonBytesMax),
          ValidUtf8(error.traceback, limits::kActorTracebackBytes)};
}

bool MayRestart(const ExecutorSpec& spec, const Runs& runs) {
  return spec.detached && (spec.max_restarts < 0 || runs.failures <= spec.max_restarts);
}

Millis PauseAfter(uint32_t quick_failures) {
  constexpr uint32_t kDoublingsMax = 16;  // More than kActorPauseMax needs.
  if (quick_failures < 2) return 0;
  return std::min(limits::kActorPauseMax,
                  limits::kActorPauseFirst << std::min(quick_failures - 2, kDoublingsMax));
}

void EndRaised(Draft& draft, const Executor& executor, const event::AttemptEnded& ended) {
  const std::string& name = executor.actor_class.empty() ? executor.name : executor.actor_class;
  const std::string what = ended.error.kind.empty() ? "an error" : ended.error.kind;
  const std::string reason = "the constructor of " + name + " raised " + what;
  const std::string more = ended.error.message.empty() ? "" : ": " + ended.error.message;
  draft.Emit(event::ExecutorEnded{executor.id, ExecutorEnd::kFailed, ended.exit_code, ended.signal,
                                  ValidUtf8(reason + more, limits::kReasonBytesMax),
                                  Bounded(ended.error)});
}

void DelayAfterFailure(Draft& draft, const Executor& executor) {
  const Millis pause = PauseAfter(QuickFailures(executor.runs));
  if (pause > 0) draft.Emit(event::ExecutorDelayed{executor.id, draft.now + pause});
}

}  // namespace

absl::Status OnRequestExecutors(Draft& draft, const input::RequestExecutors& input) {
  const World& world = draft.core.world;
  const SessionKey key{input.opener.owner, input.owner, input.session};
  RT_RETURN_IF_ERROR(CheckSessionName(input.session));
  if (input.count < 1 || input.count > limits::kExecutorsPerRequest)
    return Invalid("count must be 1 to " + std::to_string(limits::kExecutorsPerRequest));
  if (input.opener.owner.kind != Owner::Kind::kNone &&
      FindLive(world.state, input.opener) == nullptr)
    return absl::FailedPreconditionError(Describe(input.opener.owner) +
                                         " has ended, or another attempt of it runs");
  RT_ASSIGN_OR_RETURN(draft.out.answer.executors, FindAsked(world, key, input));
  if (!draft.out.answer.executors.empty()) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(input.spec));
  RT_ASSIGN_OR_RETURN(const ExecutorSpec spec, ParseExecutorSpec(json));
  RT_RETURN_IF_ERROR(CheckPossible(draft.core, spec.program.resources));
  RT_RETURN_IF_ERROR(CheckSpace(world, key, static_cast<size_t>(input.count)));
  RT_RETURN_IF_ERROR(CheckDetached(world, input.owner, spec, input.count));
  const std::string normal = NormalText(spec);
  if (normal.size() * static_cast<size_t>(input.count) > limits::kExecutorRequestBytes)
    return Invalid(std::to_string(input.count) + " executors with a spec of " +
                       std::to_string(normal.size()) + " bytes are too much for one request",
                   "request fewer at a time, or put large values into inputs");
  draft.soft().sessions[key] = draft.now;
  for (int64_t i = 0; i < input.count; ++i) {
    const ExecutorId id{world.state.last_executor + 1};
    draft.Emit(event::ExecutorRequested{id, input.owner, input.session, input.opener,
                                        input.request_key, normal, kSpecFormat});
    draft.out.answer.executors.push_back(id);
  }
  return absl::OkStatus();
}

absl::Status OnReleaseExecutors(Draft& draft, const input::ReleaseExecutors& input) {
  const SessionKey key{input.opener, input.owner, input.session};
  const SessionIndex* session = FindSession(draft.core.world, key);
  for (ExecutorId id : input.executors) {
    if (!draft.state().executors.contains(id)) continue;
    if (session == nullptr || !session->executors.contains(id))
      return NotFound(Describe(Owner::Of(id)) + " is not of this session");
  }
  if (input.all) EndSession(draft, key, input.reason);
  for (ExecutorId id : input.executors)
    if (draft.state().executors.contains(id)) Release(draft, id, input.reason);
  return absl::OkStatus();
}

absl::Status OnStopExecutor(Draft& draft, const input::StopExecutor& input) {
  ExecutorId id = input.executor;
  if (!input.actor.empty()) {
    const auto& actors = draft.index().executors.actors;
    const auto found = actors.find({input.owner, input.actor});
    if (found == actors.end())
      return NotFound("there is no detached actor '" + input.actor + "' of " + input.owner);
    id = found->second;
  }
  if (!draft.state().executors.contains(id))
    return NotFound("there is no executor " + std::to_string(id.value));
  Release(draft, id, input.reason);
  return absl::OkStatus();
}

void OnRenewSession(Draft& draft, const input::RenewSession& input) {
  const SessionKey key{input.opener, input.owner, input.session};
  const auto lease = draft.soft().sessions.find(key);
  if (lease != draft.soft().sessions.end()) lease->second = draft.now;
}

void AfterExecutorAttempt(Draft& draft, const event::AttemptEnded& ended) {
  const ExecutorId id = ended.attempt.owner.executor();
  const Executor& executor = draft.state().executors.at(id);
  const ExecutorSpec& spec = draft.index().executors.specs.at(id);
  auto end = [&](ExecutorEnd how, const std::string& reason) {
    draft.Emit(event::ExecutorEnded{id, how, ended.exit_code, ended.signal, reason, {}});
  };
  if (executor.release_requested) return end(ExecutorEnd::kStopped, executor.release_reason);
  switch (ended.outcome) {
    case AttemptOutcome::kSucceeded: return end(ExecutorEnd::kSucceeded, "");
    case AttemptOutcome::kFailed:
    case AttemptOutcome::kLaunchFailed:
      if (executor.detached && HasRaised(ended)) return EndRaised(draft, executor, ended);
      if (MayRestart(spec, executor.runs)) return DelayAfterFailure(draft, executor);
      return end(ExecutorEnd::kFailed, ended.reason);
    case AttemptOutcome::kStopped: return end(ExecutorEnd::kStopped, ended.reason);
    case AttemptOutcome::kLost:
      if (!executor.detached) return end(ExecutorEnd::kLost, ended.reason);
      if (executor.runs.losses_in_row > limits::kInfraLossesMax)
        return end(ExecutorEnd::kFailed, "its machines were lost too often in a row");
      return;  // Waits for another node.
    case AttemptOutcome::kPreempted:
      if (!executor.detached) return end(ExecutorEnd::kLost, "its node was drained");
      return;                         // Likewise.
    case AttemptOutcome::kHung:       // Executors have no watchdog,
    case AttemptOutcome::kWithdrawn:  // and are not backfilled.
    case AttemptOutcome::kSuspended:  // They are not paused,
    case AttemptOutcome::kResized:    // nor resized.
    case AttemptOutcome::kNone: RT_CHECK(false);
  }
}

void GiveTimeToRenew(Draft& draft) {
  for (const auto& [key, session] : draft.index().executors.sessions)
    if (session.open > session.open_detached) draft.soft().sessions[key] = draft.now;
}

void ForgiveSessions(Draft& draft, Millis stall) {
  for (auto& [key, heard_at] : draft.soft().sessions) heard_at += stall;
}

void ExpireSessions(Draft& draft) {
  std::vector<SessionKey> expired;
  for (const auto& [key, heard_at] : draft.soft().sessions)
    if (draft.now - heard_at > limits::kSessionLease) expired.push_back(key);
  for (const SessionKey& key : expired) {
    draft.soft().sessions.erase(key);
    EndSession(
        draft, key,
        "its driver was not heard for " + std::to_string(limits::kSessionLease / 1'000) + " s");
  }
}

void EndDelays(Draft& draft) {
  const std::set<std::pair<Millis, ExecutorId>>& delayed = draft.index().executors.delayed;
  while (!delayed.empty() && delayed.begin()->first <= draft.now)
    draft.Emit(event::ExecutorDelayed{delayed.begin()->second, 0});
}

void EndSessionsOf(Draft& draft, const AttemptId& opener) {
  std::vector<SessionKey> theirs;
  const auto& all = draft.index().executors.sessions;
  for (auto at = all.lower_bound({opener.owner, "", ""});
       at != all.end() && at->first.opener == opener.owner; ++at)
    theirs.push_back(at->first);
  for (const SessionKey& key : theirs) {
    draft.soft().sessions.erase(key);
    EndSession(
        draft, key,
        Describe(opener.owner) + ", which had opened its session, has ended or was restarted");
  }
}

}  // namespace rt
