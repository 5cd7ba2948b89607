#include "head/core/executor_index.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/limits_executors.h"
#include "common/spec/journalled_spec.h"
#include "head/core/index.h"

namespace rt {
namespace {

void NoteChange(SessionIndex& session, ExecutorId id, uint64_t seq) {
  uint64_t& changed = session.changed[id];
  session.by_change.erase({changed, id});
  session.by_change.insert({seq, id});
  changed = seq;
  session.changed_seq = seq;
}

// The newest actor of a name is the one that is shown, as long as it is not stopped.
void NoteDead(ExecutorIndex& index, const Executor& executor) {
  if (!executor.detached) return;
  const std::pair<std::string, std::string> key{executor.owner, executor.actor_name};
  index.dead_actors.erase(key);
  if (executor.end == ExecutorEnd::kFailed) index.dead_actors.emplace(key, executor.id);
}

void IndexExecutor(World& world, Executor& executor) {
  ExecutorIndex& index = world.index.executors;
  const auto [known, is_new] = index.sessions.try_emplace(SessionKey::Of(executor));
  SessionIndex& session = known->second;
  if (is_new) session.complete_after = world.state.seq;
  session.executors.insert(executor.id);
  NoteChange(session, executor.id, world.state.seq);
  if (!executor.request_key.empty()) session.by_key[executor.request_key].push_back(executor.id);
  if (executor.is_over()) {
    index.ended.insert({executor.ended_seq, executor.id});
    NoteDead(index, executor);
    return;
  }
  ExecutorSpec spec = ReadJournalledExecutor({"", executor.normal_spec, executor.spec_format}).spec;
  executor.name = spec.program.name;
  executor.detached = spec.detached;
  executor.actor_name = spec.actor_name;
  executor.actor_class = spec.actor_class;
  index.specs[executor.id] = std::move(spec);
  ++index.open;
  ++session.open;
  if (executor.restart_at != 0) index.delayed.insert({executor.restart_at, executor.id});
  if (!executor.detached) return;
  ++session.open_detached;
  index.actors[{executor.owner, executor.actor_name}] = executor.id;
  NoteDead(index, executor);
}

void ForgetExecutor(World& world, ExecutorId id) {
  const auto found = world.state.executors.find(id);
  const SessionKey key = SessionKey::Of(found->second);
  SessionIndex& session = world.index.executors.sessions.at(key);
  session.executors.erase(id);
  const auto changed = session.changed.find(id);
  session.complete_after = std::max(session.complete_after, changed->second);
  session.by_change.erase({changed->second, id});
  session.changed.erase(changed);
  if (const auto keyed = session.by_key.find(found->second.request_key);
      keyed != session.by_key.end()) {
    std::erase(keyed->second, id);
    if (keyed->second.empty()) session.by_key.erase(keyed);
  }
  if (session.executors.empty()) world.index.executors.sessions.erase(key);
  auto& dead = world.index.executors.dead_actors;
  const auto shown = dead.find({found->second.owner, found->second.actor_name});
  if (shown != dead.end() && shown->second == id) dead.erase(shown);
  world.state.executors.erase(found);
}

void Wake(World& world, const Owner& owner, uint64_t seq) {
  if (!owner.is_executor()) return;
  const auto found = world.state.executors.find(owner.executor());
  if (found == world.state.executors.end()) return;
  NoteChange(world.index.executors.sessions.at(SessionKey::Of(found->second)), found->first, seq);
}

void WakeAllOn(World& world, NodeId node, uint64_t seq) {
  for (const Fence& fence : world.index.nodes[node].attempts) Wake(world, fence.attempt.owner, seq);
}

}  // namespace

void AddExecutor(World& world, const event::ExecutorRequested& e, Millis at) {
  Executor& executor = world.state.executors[e.executor];
  executor.id = e.executor;
  executor.owner = e.owner;
  executor.session = e.session;
  executor.opener = e.opener;
  executor.request_key = e.request_key;
  executor.normal_spec = e.normal_spec;
  executor.spec_format = e.spec_format;
  executor.created_at = at;
  world.state.last_executor = std::max(world.state.last_executor, e.executor.value);
  IndexExecutor(world, executor);
  AddReady(world, Owner::Of(e.executor));
}

void NoteRelease(World& world, const event::ExecutorReleaseRequested& e) {
  Executor& executor = world.state.executors.at(e.executor);
  executor.release_requested = true;
  executor.release_reason = e.reason;
  RemoveReady(world, Owner::Of(e.executor));
}

void DelayExecutor(World& world, const event::ExecutorDelayed& e) {
  Executor& executor = world.state.executors.at(e.executor);
  world.index.executors.delayed.erase({executor.restart_at, e.executor});
  executor.restart_at = e.until;
  if (e.until == 0) return AddReady(world, Owner::Of(e.executor));
  RemoveReady(world, Owner::Of(e.executor));
  world.index.executors.delayed.insert({e.until, e.executor});
}

void EndExecutor(World& world, const event::ExecutorEnded& e, uint64_t seq, Millis at) {
  Executor& executor = world.state.executors.at(e.executor);
  RT_CHECK(!executor.is_over() && executor.runs.live() == nullptr);
  RemoveReady(world, Owner::Of(e.executor));
  executor.end = e.end;
  executor.exit_code = e.exit_code;
  executor.signal = e.signal;
  executor.reason = e.reason;
  executor.error = e.error;
  executor.ended_at = at;
  executor.ended_seq = seq;
  executor.normal_spec.clear();
  ExecutorIndex& index = world.index.executors;
  SessionIndex& session = index.sessions.at(SessionKey::Of(executor));
  --index.open;
  --session.open;
  if (executor.detached) {
    --session.open_detached;
    index.actors.erase({executor.owner, executor.actor_name});
    NoteDead(index, executor);
  }
  index.delayed.erase({executor.restart_at, e.executor});
  executor.restart_at = 0;
  index.specs.erase(e.executor);
  index.ended.insert({seq, e.executor});
  while (index.ended.size() > limits::kEndedExecutorsKept) {
    const ExecutorId oldest = index.ended.begin()->second;
    index.ended.erase(index.ended.begin());
    ForgetExecutor(world, oldest);
  }
}

void NoteSessionRecord(World& world, const Event& event, uint64_t seq) {
  if (world.state.executors.empty()) return;
  if (const auto* placed = std::get_if<event::AttemptPlaced>(&event))
    return Wake(world, placed->attempt.owner, seq);
  if (const auto* started = std::get_if<event::AttemptStarted>(&event))
    return Wake(world, started->attempt.owner, seq);
  if (const auto* ended = std::get_if<event::AttemptEnded>(&event))
    return Wake(world, ended->attempt.owner, seq);
  if (const auto* requested = std::get_if<event::ExecutorRequested>(&event))
    return Wake(world, Owner::Of(requested->executor), seq);
  if (const auto* released = std::get_if<event::ExecutorReleaseRequested>(&event))
    return Wake(world, Owner::Of(released->executor), seq);
  if (const auto* over = std::get_if<event::ExecutorEnded>(&event))
    return Wake(world, Owner::Of(over->executor), seq);
  if (const auto* delayed = std::get_if<event::ExecutorDelayed>(&event))
    return Wake(world, Owner::Of(delayed->executor), seq);
  if (const auto* draining = std::get_if<event::NodeDraining>(&event))
    return WakeAllOn(world, draining->node, seq);
  if (const auto* resumed = std::get_if<event::NodeResumed>(&event))
    return WakeAllOn(world, resumed->node, seq);
}

void ReindexExecutors(World& world) {
  for (auto& [id, executor] : world.state.executors) IndexExecutor(world, executor);
  for (const auto& [id, executor] : world.state.executors) ReindexRuns(world, Owner::Of(id));
}

uint32_t QuickFailures(const Runs& runs) {
  uint32_t count = 0;
  for (auto at = runs.attempts.rbegin(); at != runs.attempts.rend(); ++at) {
    if (at->ended_at == 0 || at->outcome == AttemptOutcome::kLost ||
        at->outcome == AttemptOutcome::kPreempted)
      continue;
    const bool failed =
        at->outcome == AttemptOutcome::kFailed || at->outcome == AttemptOutcome::kLaunchFailed;
    const Millis ran_for = at->started_at == 0 ? 0 : at->ended_at - at->started_at;
    if (!failed || ran_for >= limits::kActorSteadyAfter) return count;
    ++count;
  }
  return count;
}

const SessionIndex* FindSession(const World& world, const SessionKey& key) {
  const auto found = world.index.executors.sessions.find(key);
  return found == world.index.executors.sessions.end() ? nullptr : &found->second;
}

}  // namespace rt
