// Read models of trials and their rows.
#include <cctype>
#include <charconv>

#include "common/base/status.h"
#include "head/core/draft.h"
#include "head/core/driver_hooks.h"
#include "head/view/parts.h"
#include "head/view/view.h"
#include "head/view/wait_reasons.h"
#include "head/view/why.h"

namespace rt {
namespace {

constexpr size_t kFixedBytes = 1'000;  // Of a trial as JSON, without params and metrics.
constexpr size_t kTagBytesMax = 130;   // It is in every row; Ray cuts its names there too.

const char* OutcomeName(AttemptOutcome outcome) {
  switch (outcome) {
    case AttemptOutcome::kSucceeded: return "SUCCEEDED";
    case AttemptOutcome::kFailed: return "FAILED";
    case AttemptOutcome::kLost: return "LOST";
    case AttemptOutcome::kStopped: return "STOPPED";
    case AttemptOutcome::kLaunchFailed: return "LAUNCH_FAILED";
    case AttemptOutcome::kSuspended: return "SUSPENDED";
    case AttemptOutcome::kPreempted: return "PREEMPTED";
    case AttemptOutcome::kHung: return "HUNG";
    case AttemptOutcome::kWithdrawn: return "WITHDRAWN";
    case AttemptOutcome::kResized: return "RESIZED";
    case AttemptOutcome::kNone: break;
  }
  return "RUNNING";
}

Json NodeIdsOf(const Runs& runs) {
  Json nodes = Json::MakeArray();
  if (runs.attempts.empty()) return nodes;
  std::set<NodeId> listed;  // Several ranks may share one.
  for (const Member& member : runs.attempts.back().members)
    if (listed.insert(member.node).second) nodes.Append(Json(member.node.value));
  return nodes;
}

// When it first ran, as far as its attempts are kept; 0: never yet.
Millis FirstStart(const Runs& runs) {
  for (const Attempt& attempt : runs.attempts)
    if (attempt.started_at != 0) return attempt.started_at;
  return 0;
}

Row LastRow(const Trial& trial) {
  return {trial.last.seq, trial.last.iteration, trial.last.time_total_s, trial.last.timestamp,
          trial.last.metrics};
}

// Until a clone reports, its newest row is its parent's, which another configuration led to.
bool HasRowOfItsOwn(const Trial& trial) {
  if (trial.last.seq == 0) return false;
  if (trial.clones.empty() || trial.has_best) return true;
  const Attempt& newest = trial.runs.attempts.back();
  return newest.number > trial.clones.back().attempt && newest.accepted.front() > 0;
}

// In all its freezes.
Millis FrozenFor(const Attempt& attempt, Millis now) {
  const Millis current = attempt.is_frozen() ? now - attempt.freeze.frozen_at : 0;
  return attempt.freeze.total + std::max<Millis>(0, current);
}

Json RuntimeOf(const Trial& trial, Millis now) {
  if (trial.runs.attempts.empty()) return Json();
  Millis total = 0;
  for (const Attempt& attempt : trial.runs.attempts) {
    if (attempt.started_at == 0) continue;
    total += (attempt.ended_at == 0 ? now : attempt.ended_at) - attempt.started_at -
             FrozenFor(attempt, now);
  }
  return Json(ToSeconds(total));
}

Waiting WaitingOf(const Core& core, const Trial& trial, Millis now, WaitReasons& reasons) {
  std::string undecided = WhyUndecided(core, trial, now);
  const bool is_away = IsDriverAway(core, trial.id.experiment, now);
  if (!undecided.empty())
    return {std::move(undecided), is_away ? "its driver, when it is run again" : "its driver"};
  return reasons.Of(Owner::Of(trial.id));
}

Json TrialItem(const Core& core, const HeadFacts& facts, const Trial& trial, WaitReasons& reasons) {
  const Experiment& experiment = core.world.state.experiments.at(trial.id.experiment);
  const ExperimentIndex& index = core.world.index.experiments.at(trial.id.experiment);
  AttemptId newest{Owner::Of(trial.id)};
  if (!trial.runs.attempts.empty()) {
    newest.number = trial.runs.attempts.back().number;
    newest.generation = trial.runs.attempts.back().generation;
  }
  std::string reason = !trial.reason.empty() ? trial.reason
                       : !trial.stop_reason.empty()
                           ? trial.stop_reason
                           : WaitingOf(core, trial, facts.now, reasons).reason;
  Json item = Json::MakeObject();
  item.Set("id", ToString(trial.id));
  item.Set("experiment_id", trial.id.experiment.value);
  item.Set("number", trial.id.number);
  item.Set("name", TrialName(experiment, index, trial.id.number));
  item.Set("state", TrialStateName(core, trial));
  item.Set("reason", TextOrNull(reason));
  item.Set("frozen", trial.runs.live() != nullptr && trial.runs.live()->is_frozen());
  item.Set("params", ParsedOrNull(trial.params));
  item.Set("attempt", newest.number == 0 ? Json() : Json(newest.number));
  item.Set("node_ids", NodeIdsOf(trial.runs));
  item.Set("step", trial.last.seq == 0 ? Json() : NumberOrInt(trial.last.iteration));
  item.Set("metrics",
           HasRowOfItsOwn(trial) ? FillResult(core, trial, newest, LastRow(trial)) : Json());
  Json best;
  if (trial.has_best)
    best = Json::MakeObject({{"value", trial.best}, {"step", NumberOrInt(trial.best_iteration)}});
  item.Set("best", std::move(best));
  item.Set("reports", trial.reports);
  item.Set("failures", trial.runs.failures);
  item.Set("preemptions", trial.runs.losses + trial.runs.evictions);
  item.Set("created_at", TimeOrNull(trial.created_at));
  item.Set("started_at", TimeOrNull(FirstStart(trial.runs)));
  item.Set("ended_at", TimeOrNull(trial.ended_at));
  item.Set("runtime_s", RuntimeOf(trial, facts.now));
  item.Set("results_dir", TrialDirectory(experiment, index, trial.id.number));
  return item;
}

// How many failures it survives. LOST: all nodes with replicas are lost, but may come back.
const char* DurabilityOf(const State& state, const Checkpoint& checkpoint) {
  if (checkpoint.is_stored()) return "DURABLE";
  const size_t left = CountingOf(state, checkpoint.replicas).size();
  return left > 1 ? "PEER" : left == 1 ? "LOCAL" : "LOST";
}

Json CheckpointsOf(const State& state, const Runs& runs) {
  Json list = Json::MakeArray();
  for (const Checkpoint& checkpoint : runs.checkpoints) {
    Json nodes = Json::MakeArray();
    for (NodeId node : checkpoint.replicas) nodes.Append(node.value);
    list.Append(Json::MakeObject({{"id", Json(checkpoint.id)},
                                  {"step", NumberOrInt(checkpoint.iteration)},
                                  {"state", "COMMITTED"},
                                  {"bytes", checkpoint.bytes},
                                  {"committed_at", TimeOrNull(checkpoint.committed_at)},
                                  {"manifest", checkpoint.manifest},
                                  {"parts", TextsJson(checkpoint.shards)},
                                  {"durability", DurabilityOf(state, checkpoint)},
                                  {"held_by", std::move(nodes)},
                                  {"metrics", ParsedOrNull(checkpoint.last.metrics)}}));
  }
  return list;
}

// On the nodes, oldest attempt first: where rt-shim begins each stream, a file that stays when
// later ones are dropped (worker/shim/shim_log.h); a stream that says nothing has none. The daemon
// moves the directory when it forgets the attempt.
Json LogPathsOf(const Core& core, const Trial& trial) {
  Json paths = Json::MakeArray();
  for (const Attempt& attempt : trial.runs.attempts) {
    for (const Member& member : attempt.members) {
      auto node = core.world.state.nodes.find(member.node);
      bool started = attempt.pids.at(member.rank) != 0;
      if (!started || node == core.world.state.nodes.end()) continue;
      Fence fence{{Owner::Of(trial.id), attempt.number, attempt.generation}, member.rank};
      std::string directory = node->second.inventory.state_dir +
                              (attempt.ended_at == 0 ? "/attempts/" : "/logs/") + ToString(fence);
      for (const char* stream : {"stdout", "stderr"})
        paths.Append(directory + "/" + stream + ".000000000000.log");
    }
  }
  return paths;
}

Json ErrorOf(const Trial& trial) {
  const ErrorInfo& error = trial.error;
  if (error.kind.empty() && error.message.empty() && error.traceback.empty()) return Json();
  return Json::MakeObject({{"class", TextOrNull(error.kind)},
                           {"message", TextOrNull(error.message)},
                           {"traceback", TextOrNull(error.traceback)}});
}

std::string DateText(Millis at) {
  std::string text = FormatTime(at).substr(0, 19);  // 2026-11-21T12:30:41
  for (char& c : text) {
    if (c == 'T') c = '_';
    if (c == ':') c = '-';
  }
  return text;
}

const Json* ValueAt(const Json& tree, const std::vector<PathStep>& path) {
  const Json* value = &tree;
  for (const PathStep& step : path) {
    if (const std::string* key = std::get_if<std::string>(&step)) {
      value = value->is_object() ? value->Find(*key) : nullptr;
    } else {
      const size_t index = std::get<size_t>(step);
      const bool there = value->is_array() && index < value->array().size();
      value = there ? &value->array()[index] : nullptr;
    }
    if (value == nullptr) return nullptr;
  }
  return value;
}

// A float with four places, else its text, with one _ for what a file's name had better not have.
std::string TagText(const Json& value) {
  if (value.is_double()) {
    char text[400];  // The largest has 309 digits before its point.
    const auto end =
        std::to_chars(text, std::end(text), value.AsDouble(), std::chars_format::fixed, 4);
    return {text, end.ptr};
  }
  std::string said = value.is_string() ? value.AsString() : value.Dump();
  if (value.is_bool()) said = value.AsBool() ? "True" : "False";
  std::string text;
  bool is_gap = false;
  for (const char c : said) {
    const bool is_kept = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
    if (is_kept || !is_gap) text += is_kept ? c : '_';
    is_gap = !is_kept;
  }
  const size_t first = text.find_first_not_of('_');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of('_') - first + 1);
}

// "3_lr=0.1000,width=64": the trial's number and what was drawn for it, keys by their last step.
std::string DrawnTag(const Space& space, uint32_t number, const Json& config) {
  std::string tag = std::to_string(number);
  char separator = '_';
  for (const Variable& variable : space.variables) {
    if (tag.size() >= kTagBytesMax) break;
    const Json* value = ValueAt(config, variable.path);
    if (value == nullptr) continue;
    const PathStep& last = variable.path.back();
    const std::string* key = std::get_if<std::string>(&last);
    const std::string name = key != nullptr ? *key : std::to_string(std::get<size_t>(last));
    tag += separator + TagText(Json(name)) + "=" + TagText(*value);
    separator = ',';
  }
  return tag.substr(0, kTagBytesMax);
}

void SetIfAbsent(Json& row, std::string_view key, Json value) {
  if (row.Find(key) == nullptr) row.Set(key, std::move(value));
}

}  // namespace

// The devices of a member, now or at its end; the node's inventory may have changed since.
static Json GpusOf(const State& state, const Member& member) {
  Json uuids = Json::MakeArray();
  auto node = state.nodes.find(member.node);
  if (node == state.nodes.end()) return uuids;
  for (const GpuInfo& gpu : node->second.inventory.gpus)
    if (std::find(member.gpus.begin(), member.gpus.end(), gpu.index) != member.gpus.end())
      uuids.Append(gpu.uuid);
  return uuids;
}

// Of a live attempt what its nodes have told since the head started.
static GpuUse GpuUseOf(const Core& core, const AttemptId& id, const Attempt& attempt) {
  if (attempt.ended_at != 0) return attempt.gpu;
  GpuUse all;
  for (const Member& member : attempt.members) {
    const auto soft = core.soft.nodes.find(member.node);
    if (soft == core.soft.nodes.end()) continue;
    const auto use = soft->second.gpu_use.find(Fence{id, member.rank});
    if (use != soft->second.gpu_use.end()) all = Together(all, use->second);
  }
  return all;
}

static Json GpuJson(const GpuUse& use) {
  if (use.devices == 0) return Json();
  const bool is_sampled = use.samples != 0;
  auto sampled = [&](double value) { return is_sampled ? Json(value) : Json(); };
  const double idle = static_cast<double>(use.idle_samples) / static_cast<double>(use.samples);
  return Json::MakeObject({{"devices", Json(use.devices)},
                           {"gpu_s", ToSeconds(use.device_ms)},
                           {"samples", Json(use.samples)},
                           {"idle_share", sampled(idle)},
                           {"utilisation_mean_percent", sampled(use.utilisation_mean)},
                           {"utilisation_peak_percent", sampled(use.utilisation_peak)},
                           {"memory_mean_bytes", sampled(use.memory_mean)},
                           {"memory_peak_bytes", is_sampled ? Json(use.memory_peak) : Json()},
                           {"memory_size_bytes", is_sampled ? Json(use.memory_size) : Json()},
                           {"power_mean_w", sampled(use.power_mean)},
                           {"power_peak_w", sampled(use.power_peak)},
                           {"temperature_peak_c", sampled(use.temperature_peak)}});
}

Json AttemptsOf(const Core& core, const Owner& owner, const Runs& runs) {
  const State& state = core.world.state;
  Json list = Json::MakeArray();
  for (const Attempt& attempt : runs.attempts) {
    bool over = attempt.ended_at != 0;
    Json members = Json::MakeArray();
    for (const Member& member : attempt.members) {
      uint64_t pid = attempt.pids.at(member.rank);
      members.Append(Json::MakeObject({{"rank", Json(member.rank)},
                                       {"node_id", Json(member.node.value)},
                                       {"pid", pid == 0 ? Json() : Json(pid)},
                                       {"gpus", GpusOf(state, member)}}));
    }
    // How one that was lost ended is not known.
    const bool exited = over && attempt.outcome != AttemptOutcome::kLost;
    list.Append(Json::MakeObject(
        {{"number", Json(attempt.number)},
         {"generation", Json(attempt.generation)},
         {"members", std::move(members)},
         {"started_at", TimeOrNull(attempt.started_at)},
         {"ended_at", TimeOrNull(attempt.ended_at)},
         {"outcome", over ? Json(OutcomeName(attempt.outcome)) : Json()},
         {"exit_code", exited && attempt.signal == 0 ? Json(attempt.exit_code) : Json()},
         {"signal", over && attempt.signal != 0 ? Json(attempt.signal) : Json()},
         {"reason", TextOrNull(attempt.reason)},
         {"frozen", attempt.is_frozen()},
         {"frozen_s", ToSeconds(FrozenFor(attempt, core.world.state.time))},
         {"freeze_refused", TextOrNull(attempt.freeze.refused)},
         {"gpu", GpuJson(GpuUseOf(core, {owner, attempt.number, attempt.generation}, attempt))},
         {"retry_rule", attempt.rule == 0 ? Json() : Json(attempt.rule)},
         {"last_seq", Json(attempt.accepted.empty() ? 0 : attempt.accepted.front())}}));
  }
  return list;
}

const char* TrialStateName(const Core& core, const Trial& trial) {
  switch (trial.end) {
    case TrialEnd::kCompleted: return "COMPLETED";
    case TrialEnd::kStopped: return "STOPPED";
    case TrialEnd::kFailed: return "FAILED";
    case TrialEnd::kNone: break;
  }
  if (trial.stop_cause != StopCause::kNone) return "STOPPING";
  const Attempt* live = trial.runs.running();
  if (live != nullptr && live->started_at != 0) return "RUNNING";
  if (live != nullptr && !live->is_backfilled()) return "STARTING";
  const bool paused = trial.pause_cause != PauseCause::kNone ||
                      core.world.state.experiments.at(trial.id.experiment).paused;
  return paused ? "PAUSED" : "PENDING";
}

absl::StatusOr<Json> TrialListView(const Core& core, const HeadFacts& facts,
                                   const TrialSpan& span) {
  const auto& all = core.world.state.experiments;
  if (span.experiment.has_value() && !all.contains(*span.experiment))
    return NotFound("there is no experiment " + std::to_string(span.experiment->value));
  const TrialId from = span.from.value_or(TrialId{});
  Json list = Json::MakeArray(), next;
  WaitReasons reasons(core, facts.now);
  size_t bytes = 0;
  for (auto found = all.lower_bound(from.experiment); found != all.end(); ++found) {
    const auto& [id, item] = *found;
    if (!next.is_null() || (span.experiment.has_value() && id != *span.experiment)) continue;
    for (size_t i = id == from.experiment ? from.number : 0; i < item.trials.size(); ++i) {
      const Trial& trial = item.trials[i];
      bytes += 2 * trial.params.size() + trial.last.metrics.size() + kFixedBytes;
      if (bytes > kPageBytesMax && !list.array().empty()) {
        next = Json(ToString(trial.id));
        break;
      }
      list.Append(TrialItem(core, facts, trial, reasons));
    }
  }
  Json reply = Listing(std::move(list));
  reply.Set("next", std::move(next));
  return reply;
}

// Its lineage: whose checkpoints it took, the oldest first.
static Json ClonesOf(const Trial& trial) {
  Json clones = Json::MakeArray();
  for (const TrialClone& clone : trial.clones)
    clones.Append(Json::MakeObject({{"from", ToString(TrialId{trial.id.experiment, clone.from})},
                                    {"checkpoint", Json(clone.checkpoint)},
                                    {"training_iteration", NumberOrInt(clone.iteration)},
                                    {"at", TimeOrNull(clone.at)},
                                    {"params_before", ParsedOrNull(clone.params_before)}}));
  return clones;
}

absl::StatusOr<Json> TrialView(const Core& core, const HeadFacts& facts, TrialId id) {
  const Trial* trial = FindTrial(core.world.state, id);
  if (trial == nullptr) return NotFound("there is no trial " + ToString(id));
  WaitReasons reasons(core, facts.now);
  Json item = TrialItem(core, facts, *trial, reasons);
  const ResourceRequest& request = RequestOf(core.world, Owner::Of(id));
  item.Set("resources", ToJson(request));
  item.Set("allocation", ParsedOrNull(trial->allocation.resources));
  Waiting waiting = WaitingOf(core, *trial, facts.now, reasons);
  item.Set("waiting", waiting.reason.empty() ? Json()
                                             : Json::MakeObject({{"reason", waiting.reason},
                                                                 {"needs", ToJson(request)},
                                                                 {"frees", waiting.frees}}));
  item.Set("elastic", ElasticOf(core, Owner::Of(id)));
  item.Set("attempts", AttemptsOf(core, Owner::Of(id), trial->runs));
  item.Set("checkpoints", CheckpointsOf(core.world.state, trial->runs));
  item.Set("outputs", OutputsOf(trial->runs));
  item.Set("outputs_pending", AwaitsOutputs(core, Owner::Of(id), trial->runs));
  item.Set("error", ErrorOf(*trial));
  item.Set("log_paths", LogPathsOf(core, *trial));
  Json excluded = Json::MakeArray();
  for (NodeId node : trial->runs.excluded) excluded.Append(node.value);
  item.Set("excluded_nodes", std::move(excluded));
  item.Set("lost_gpu_s", LostGpuSeconds(request, *trial));
  if (trial->cloned > 0) {
    item.Set("clones", ClonesOf(*trial));
    item.Set("policy", PolicyOf(core.world.state.experiments.at(id.experiment), *trial));
  }
  return item;
}

Json FillResult(const Core& core, const Trial& trial, const AttemptId& attempt, const Row& row) {
  Json result = ParsedOrNull(row.metrics);
  if (!result.is_object()) result = Json::MakeObject();
  SetIfAbsent(result, "training_iteration", NumberOrInt(row.iteration));
  SetIfAbsent(result, "time_total_s", row.time_total_s);
  SetIfAbsent(result, "timestamp", row.timestamp / 1000);
  SetIfAbsent(result, "date", DateText(row.timestamp));
  SetIfAbsent(result, "trial_id", ToString(trial.id));
  SetIfAbsent(result, "done", false);
  for (const Attempt& run : trial.runs.attempts) {
    const bool is_it = run.number == attempt.number && run.generation == attempt.generation;
    if (!is_it || run.members.empty()) continue;
    if (run.pids.front() != 0) SetIfAbsent(result, "pid", run.pids.front());
    auto node = core.world.state.nodes.find(run.members.front().node);
    if (node == core.world.state.nodes.end()) continue;
    SetIfAbsent(result, "hostname", node->second.name);
    SetIfAbsent(result, "node_ip", node->second.inventory.address);
  }
  SetIfAbsent(result, "config", ParsedOrNull(trial.ParamsOf(attempt.number)));
  const auto& index = core.world.index.experiments.at(trial.id.experiment);
  SetIfAbsent(result, "experiment_tag",
              DrawnTag(index.spec.space, trial.id.number, *result.Find("config")));
  return result;
}

}  // namespace rt
