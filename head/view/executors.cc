// Read models of executors and of detached actors.
#include <map>

#include "common/base/status.h"
#include "head/core/executor_index.h"
#include "head/view/parts.h"
#include "head/view/view.h"
#include "head/view/why.h"

namespace rt {
namespace {

const char* OutcomeOfExecutor(ExecutorEnd end) {
  switch (end) {
    case ExecutorEnd::kSucceeded: return "SUCCEEDED";
    case ExecutorEnd::kFailed: return "FAILED";
    case ExecutorEnd::kStopped: return "STOPPED";
    case ExecutorEnd::kLost: return "LOST";
    case ExecutorEnd::kNone: break;
  }
  return "";
}

Json ErrorOfExecutor(const ErrorInfo& error) {
  if (error.traceback.empty()) return Json();
  return Json::MakeObject({{"class", TextOrNull(error.kind)},
                           {"message", TextOrNull(error.message)},
                           {"traceback", TextOrNull(error.traceback)}});
}

// An executor has one rank.
const Node* NodeOfAttempt(const Core& core, const Attempt* attempt) {
  if (attempt == nullptr) return nullptr;
  const auto found = core.world.state.nodes.find(attempt->members.front().node);
  return found == core.world.state.nodes.end() ? nullptr : &found->second;
}

// Null: it runs on none.
const Node* DrainingNodeOf(const Core& core, const Executor& executor) {
  const Node* node = NodeOfAttempt(core, executor.runs.live());
  return node != nullptr && node->draining ? node : nullptr;
}

std::string ReasonOfExecutor(const Core& core, const HeadFacts& facts, const Executor& executor) {
  if (executor.is_over()) return executor.reason;
  if (executor.release_requested) return executor.release_reason;
  if (const Node* node = DrainingNodeOf(core, executor))
    return "its node " + node->name + " drains" +
           (node->drain_reason.empty() ? "" : ": " + node->drain_reason);
  if (executor.runs.live() != nullptr) return "";
  return WhyWaiting(core, Owner::Of(executor.id), facts.now).reason;
}

}  // namespace

const char* ExecutorStateName(const Core& core, const Executor& executor) {
  if (executor.is_over()) return "ENDED";
  if (executor.release_requested || DrainingNodeOf(core, executor) != nullptr) return "STOPPING";
  const Attempt* live = executor.runs.live();
  if (live == nullptr) return "PENDING";
  return live->started_at == 0 ? "STARTING" : "RUNNING";
}

Json ExecutorItem(const Core& core, const HeadFacts& facts, const Executor& executor) {
  const Attempt* newest = executor.runs.attempts.empty() ? nullptr : &executor.runs.attempts.back();
  const bool is_placed = newest != nullptr && (executor.is_over() || newest->ended_at == 0);
  const Node* node = is_placed ? NodeOfAttempt(core, newest) : nullptr;
  const bool has_exited = executor.is_over() && newest != nullptr;
  Json item = Json::MakeObject();
  item.Set("id", executor.id.value);
  item.Set("name", executor.name);
  item.Set("state", ExecutorStateName(core, executor));
  item.Set("reason", TextOrNull(ReasonOfExecutor(core, facts, executor)));
  item.Set("outcome", TextOrNull(OutcomeOfExecutor(executor.end)));
  item.Set("exit_code", has_exited && executor.signal == 0 ? Json(executor.exit_code) : Json());
  item.Set("signal", has_exited && executor.signal != 0 ? Json(executor.signal) : Json());
  item.Set("attempt", newest == nullptr ? Json() : Json(newest->number));
  item.Set("node", Json());
  item.Set("run_dir", Json());
  if (node == nullptr) return item;
  const NodeInventory& inventory = node->inventory;
  item.Set("node", Json::MakeObject({{"id", node->id.value},
                                     {"name", node->name},
                                     {"address", inventory.address},
                                     {"boot_id", inventory.boot_id},
                                     {"state_dir", inventory.state_dir}}));
  const Fence fence{{Owner::Of(executor.id), newest->number, newest->generation}, 0};
  item.Set("run_dir", inventory.state_dir + "/attempts/" + ToString(fence));
  return item;
}

Json SessionView(const Core& core, const HeadFacts& facts, const SessionKey& session,
                 uint64_t after) {
  Json list = Json::MakeArray();
  const SessionIndex* index = FindSession(core.world, session);
  if (index == nullptr) return list;
  for (ExecutorId id : index->executors) {
    const Executor& executor = core.world.state.executors.at(id);
    if (!executor.is_over() || executor.ended_seq > after)
      list.Append(ExecutorItem(core, facts, executor));
  }
  return list;
}

std::optional<Json> SessionChanges(const Core& core, const HeadFacts& facts,
                                   const SessionKey& session, uint64_t after) {
  const SessionIndex* index = FindSession(core.world, session);
  if (index == nullptr || after < index->complete_after) return std::nullopt;
  Json list = Json::MakeArray();
  for (auto at = index->by_change.lower_bound({after + 1, {}}); at != index->by_change.end(); ++at)
    list.Append(ExecutorItem(core, facts, core.world.state.executors.at(at->second)));
  return list;
}

namespace {

// "job 4": the attempt whose driver has opened the session; null: one outside.
Json OpenerOf(const Executor& executor) {
  const Owner& owner = executor.opener.owner;
  return owner.kind == Owner::Kind::kNone ? Json() : Json(Describe(owner));
}

Json ActorOf(const Executor& executor) {
  if (executor.actor_name.empty() && executor.actor_class.empty()) return Json();
  return Json::MakeObject(
      {{"name", TextOrNull(executor.actor_name)}, {"class", TextOrNull(executor.actor_class)}});
}

uint32_t RestartsOf(const Executor& executor) {
  const uint32_t ends = executor.runs.failures + executor.runs.losses + executor.runs.evictions;
  const bool last_was_one =
      executor.end == ExecutorEnd::kFailed || executor.end == ExecutorEnd::kLost;
  return ends - (last_was_one && ends > 0 ? 1 : 0);
}

Json ExecutorRow(const Core& core, const HeadFacts& facts, const Executor& executor) {
  Json item = ExecutorItem(core, facts, executor);
  const Json* node = item.Find("node");
  item.Set("node_id", node->is_null() ? Json() : Json(node->GetInt("id")));
  item.Set("owner", executor.owner);
  item.Set("session", executor.session);
  item.Set("opened_by", OpenerOf(executor));
  item.Set("actor", ActorOf(executor));
  item.Set("detached", executor.detached);
  item.Set("restarts", RestartsOf(executor));
  item.Set("restart_at", TimeOrNull(executor.restart_at));
  item.Set("error", ErrorOfExecutor(executor.error));
  item.Set("created_at", TimeOrNull(executor.created_at));
  item.Set("started_at", TimeOrNull(executor.started_at));
  item.Set("ended_at", TimeOrNull(executor.ended_at));
  const Millis until = executor.ended_at != 0 ? executor.ended_at : facts.now;
  item.Set("runtime_s",
           executor.started_at == 0 ? Json() : Json(ToSeconds(until - executor.started_at)));
  return item;
}

}  // namespace

Json ExecutorPageView(const Core& core, const HeadFacts& facts, const ListSpan& span) {
  return PageOf(core.world.state.executors, span,
                [&](const Executor& executor) { return ExecutorRow(core, facts, executor); });
}

absl::StatusOr<Json> ExecutorView(const Core& core, const HeadFacts& facts, ExecutorId id) {
  const auto found = core.world.state.executors.find(id);
  if (found == core.world.state.executors.end())
    return WithHint(NotFound("there is no executor " + std::to_string(id.value)),
                    "the oldest that ended are forgotten; rt executor list shows the others");
  const Executor& executor = found->second;
  Json item = ExecutorRow(core, facts, executor);
  const Waiting waiting =
      executor.is_over() ? Waiting{} : WhyWaiting(core, Owner::Of(id), facts.now);
  const auto spec = core.world.index.executors.specs.find(id);
  const bool is_known = spec != core.world.index.executors.specs.end();
  item.Set("resources", is_known ? ToJson(spec->second.program.resources) : Json());
  item.Set("waiting", waiting.reason.empty()
                          ? Json()
                          : Json::MakeObject({{"reason", waiting.reason},
                                              {"needs", ToJson(spec->second.program.resources)},
                                              {"frees", TextOrNull(waiting.frees)}}));
  item.Set("attempts", AttemptsOf(core, Owner::Of(id), executor.runs));
  return item;
}

Json ExecutorCounts(const Core& core) {
  std::map<std::string, int64_t> states;
  size_t sessions = 0, total = 0;
  for (const auto& [key, session] : core.world.index.executors.sessions)
    sessions += session.open > 0 ? 1 : 0;
  for (const auto& [id, spec] : core.world.index.executors.specs) {
    ++states[ExecutorStateName(core, core.world.state.executors.at(id))];
    ++total;
  }
  Json by_state = Json::MakeObject();
  for (const auto& [name, count] : states) by_state.Set(name, count);
  return Json::MakeObject(
      {{"total", total}, {"by_state", std::move(by_state)}, {"sessions", sessions}});
}

absl::StatusOr<Json> ExecutorRoute(const Core& core, const RouteAsk& ask) {
  const auto found = core.world.state.executors.find(ask.executor);
  const Executor* executor = found == core.world.state.executors.end() ? nullptr : &found->second;
  const bool is_theirs =
      executor != nullptr && executor->owner == ask.user &&
      (executor->opener.owner == ask.opener || executor->detached) &&
      (ask.session.empty() || executor->session == ask.session || executor->detached);
  if (!is_theirs)
    return NotFound("there is no executor " + std::to_string(ask.executor.value) +
                    " of the caller's session");
  if (!ask.session.empty() && (executor->is_over() || executor->release_requested))
    return absl::FailedPreconditionError(
        Describe(Owner::Of(ask.executor)) + " has ended or is being released: " +
        (executor->is_over() ? executor->reason : executor->release_reason));
  const Attempt* live = executor->runs.live();
  if (live == nullptr) return absl::UnavailableError("the executor does not run");
  const Node& node = core.world.state.nodes.at(live->members.front().node);
  const Fence fence{{Owner::Of(ask.executor), live->number, live->generation}, 0};
  const std::string run = ToString(fence);
  return Json::MakeObject({{"node", node.id.value},
                           {"run", run},
                           {"run_dir", node.inventory.state_dir + "/attempts/" + run}});
}

Json ActorListView(const Core& core, const HeadFacts& facts, const std::string& user) {
  const ExecutorIndex& index = core.world.index.executors;
  std::set<ExecutorId> shown;
  for (const auto* actors : {&index.actors, &index.dead_actors})
    for (const auto& [key, id] : *actors)
      if (user.empty() || key.first == user) shown.insert(id);
  Json list = Json::MakeArray();
  for (ExecutorId id : shown)
    list.Append(ExecutorRow(core, facts, core.world.state.executors.at(id)));
  return Listing(std::move(list));
}

absl::StatusOr<Json> ActorView(const Core& core, const HeadFacts& facts, const std::string& user,
                               const std::string& name) {
  const ExecutorIndex& index = core.world.index.executors;
  const bool is_dead = !index.actors.contains({user, name});
  const auto& actors = is_dead ? index.dead_actors : index.actors;
  const auto found = actors.find({user, name});
  if (found == actors.end())
    return WithHint(NotFound("there is no detached actor '" + name + "' of " + user),
                    "rt actor list shows those that there are");
  const ExecutorId id = found->second;
  Json item = ExecutorRow(core, facts, core.world.state.executors.at(id));
  const auto spec = index.specs.find(id);
  if (spec == index.specs.end()) return item;
  const absl::StatusOr<Json> params = Json::Parse(spec->second.params);
  if (params.ok()) item.Set("secret", params->GetString("secret"));
  return item;
}

}  // namespace rt
