#include "head/service/scaling_hooks.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/subprocess.h"
#include "head/core/draft.h"
#include "head/core/pools.h"

namespace rt {
namespace {

Json NodeJson(const Core& core, uint64_t number, const Node* node) {
  const Machine& machine = core.world.state.machines.at(number);
  Json labels = Json::MakeObject();
  if (node != nullptr)
    for (const auto& [key, value] : node->inventory.labels) labels.Set(key, value);
  const bool has_address = node != nullptr && !node->inventory.address.empty();
  return Json::MakeObject({{"id", machine.id.empty() ? Json() : Json(machine.id)},
                           {"name", node == nullptr ? MachineName(number) : node->name},
                           {"address", has_address ? Json(node->inventory.address) : Json()},
                           {"labels", std::move(labels)}});
}

// By pool: the machines of which the news is.
using News = std::map<std::string, std::vector<const Json*>>;

void AddCalls(const char* event, const News& news, const ScalingView& view,
              std::vector<HookCall>& calls) {
  for (const auto& [pool, nodes] : news) {
    Json list = Json::MakeArray();
    for (const Json* node : nodes) list.Append(*node);
    calls.push_back({event, Json::MakeObject({{"schema", 1},
                                              {"event", event},
                                              {"cluster", view.cluster},
                                              {"pool", pool},
                                              {"count", nodes.size()},
                                              {"demand", view.demand},
                                              {"nodes", std::move(list)}})});
  }
}

std::vector<std::string> EnvironmentFor(const std::string& event, const std::string& cluster) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!text.starts_with("RT_CLUSTER=") && !text.starts_with("RT_HOOK="))
      environment.push_back(text);
  }
  environment.push_back("RT_CLUSTER=" + cluster);
  environment.push_back("RT_HOOK=" + event);
  return environment;
}

}  // namespace

ScalingView ScalingViewOf(const Core& core) {
  const State& state = core.world.state;
  ScalingView view{.cluster = state.cluster_name, .machines = {}, .demand = Json::MakeArray()};
  for (const auto& [number, machine] : state.machines) {
    const auto found = state.nodes.find(machine.node);
    const Node* node = found == state.nodes.end() ? nullptr : &found->second;
    const bool is_there = node != nullptr && node->ready && node->counts();
    view.machines[number] = {.pool = machine.pool,
                             .is_live = machine.is_live(),
                             .is_ready = is_there,
                             .has_notice = is_there && node->draining && !node->drained_by_hand,
                             .node = NodeJson(core, number, node)};
  }
  for (const auto& [wanted, queue] : core.world.index.ready)
    view.demand.Append(
        Json::MakeObject({{"shape", ToJson(wanted)}, {"count", queue.by_order.size()}}));
  return view;
}

ScalingView ScalingViewAtStart(const Core& core) {
  const State& state = core.world.state;
  ScalingView view = ScalingViewOf(core);
  for (const auto& [number, machine] : state.machines) {
    // A machine that was found without having been asked for has no time of its request.
    if (machine.requested_at == 0 || machine.requested_at >= state.started_at) {
      view.machines.erase(number);
      continue;
    }
    ScalingView::Item& item = view.machines.at(number);
    item.is_live = item.is_live || machine.released_at >= state.started_at;
    const auto node = state.nodes.find(machine.node);
    if (node != state.nodes.end() && node->second.joined_at >= state.started_at)
      item.is_ready = item.has_notice = false;
  }
  return view;
}

std::vector<HookCall> CallsBetween(const ScalingView& before, const ScalingView& after) {
  News up, down, ready, preempted;
  for (const auto& [number, item] : after.machines) {
    const auto found = before.machines.find(number);
    const ScalingView::Item was =
        found == before.machines.end() ? ScalingView::Item{} : found->second;
    if (item.is_live && found == before.machines.end()) up[item.pool].push_back(&item.node);
    if (!item.is_live && was.is_live) down[item.pool].push_back(&item.node);
    if (item.is_ready && !was.is_ready) ready[item.pool].push_back(&item.node);
    if (item.has_notice && !was.has_notice) preempted[item.pool].push_back(&item.node);
  }
  // Released and removed since the last look, or vanished.
  for (const auto& [number, item] : before.machines)
    if (item.is_live && !after.machines.contains(number)) down[item.pool].push_back(&item.node);
  std::vector<HookCall> calls;
  AddCalls("scale_up", up, after, calls);
  AddCalls("node_ready", ready, after, calls);
  AddCalls("preempted", preempted, after, calls);
  AddCalls("scale_down", down, after, calls);
  return calls;
}

ScalingNews::ScalingNews(ScalingHooks hooks) : hooks_(std::move(hooks)) {
  if (!hooks_.commands.empty()) thread_ = std::thread([this] { Run(); });
}

ScalingNews::~ScalingNews() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ScalingNews::See(ScalingView view) {
  if (hooks_.commands.empty()) return;
  std::vector<HookCall> calls;
  if (last_.has_value()) calls = CallsBetween(*last_, view);
  {
    std::lock_guard lock(mutex_);
    cluster_ = view.cluster;
    for (HookCall& call : calls) {
      if (!hooks_.commands.contains(call.event)) continue;
      if (queue_.size() >= limits::kHooksQueuedMax) {
        problem_ = "too many hooks wait: some were dropped";
        RT_LOG(kWarning) << "autoscaling.hooks: " << problem_;
        break;
      }
      queue_.push_back(std::move(call));
    }
  }
  changed_.notify_all();
  last_ = std::move(view);
}

std::string ScalingNews::problem() const {
  std::lock_guard lock(mutex_);
  return problem_;
}

void ScalingNews::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const HookCall call = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Execute(call);
    lock.lock();
  }
}

void ScalingNews::Execute(const HookCall& call) {
  const SpawnOptions options{.argv = hooks_.commands.at(call.event),
                             .env = EnvironmentFor(call.event, call.message.GetString("cluster")),
                             .cwd = "/",
                             .setsid = true};
  const absl::StatusOr<ProgramResult> result =
      RunProgram(options, call.message.Dump() + "\n", hooks_.timeout, limits::kHookOutputMax);
  std::string problem;
  if (!result.ok()) {
    problem = MessageOf(result.status());
  } else if (!result->exit.ok()) {
    problem = ToString(result->exit);
    if (const std::string said(Trim(result->output)); !said.empty()) problem += ": " + said;
  }
  if (!problem.empty()) {
    problem = "hook " + call.event + ": " + problem;
    RT_LOG(kWarning) << "autoscaling.hooks: " << problem;
  }
  std::lock_guard lock(mutex_);
  problem_ = problem;
}

}  // namespace rt
