// Read models of the cluster, experiments and jobs. Nodes are in view_nodes.cc, trials in
// view_trials.cc.
#include "common/base/status.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "common/algorithms/registry.h"
#include "common/base/limits.h"
#include "common/spec/objectives.h"
#include "head/core/draft.h"
#include "head/core/owner_policy.h"
#include "head/view/parts.h"
#include "head/view/view.h"
#include "head/view/wait_lists.h"
#include "head/view/wait_reasons.h"
#include "head/view/why.h"

namespace rt {
namespace {

const char* EndName(ExperimentEnd end) {
  switch (end) {
    case ExperimentEnd::kCompleted: return "COMPLETED";
    case ExperimentEnd::kStopped: return "STOPPED";
    case ExperimentEnd::kFailed: return "FAILED";
    case ExperimentEnd::kNone: break;
  }
  return "RUNNING";
}

Json TrialsByState(const Core& core, const Experiment& experiment) {
  Json counts = Json::MakeObject();
  for (const char* name :
       {"PENDING", "STARTING", "RUNNING", "PAUSED", "STOPPING", "COMPLETED", "STOPPED", "FAILED"})
    counts.Set(name, 0);
  const ExperimentIndex& index = core.world.index.experiments.at(experiment.id);
  counts["COMPLETED"] = Json(index.completed);
  counts["STOPPED"] = Json(index.stopped);
  counts["FAILED"] = Json(index.failed);
  // Thousands are counted for each status: by the names' addresses, which are few.
  std::vector<std::pair<const char*, int64_t>> found;
  auto add = [&](const std::set<uint32_t>& numbers) {
    for (uint32_t number : numbers) {
      const char* name = TrialStateName(core, experiment.trials[number]);
      auto known = std::find_if(found.begin(), found.end(),
                                [&](const auto& item) { return item.first == name; });
      if (known == found.end()) known = found.insert(found.end(), {name, 0});
      ++known->second;
    }
  };
  add(index.pending);
  add(index.live);
  for (const auto& [name, number] : found) {
    Json& count = counts[name];
    count = Json(count.AsInt() + number);
  }
  return counts;
}

Json BestOf(const Core& core, const Experiment& experiment) {
  const ExperimentIndex& index = core.world.index.experiments.at(experiment.id);
  if (!index.best_trial.has_value()) return Json();
  const Trial& trial = experiment.trials[*index.best_trial];
  return Json::MakeObject({{"trial_id", ToString(trial.id)},
                           {"value", trial.best},
                           {"params", ParsedOrNull(trial.params)},
                           {"step", NumberOrInt(trial.best_iteration)}});
}

std::string ReasonOf(const Experiment& experiment) {
  if (!experiment.reason.empty()) return experiment.reason;
  if (!experiment.stop_reason.empty()) return experiment.stop_reason;
  if (experiment.search.over && !experiment.finishing && !experiment.paused) {
    const std::string why = experiment.search.reason;
    return "runs retried trials only; its search is over" + (why.empty() ? why : ": " + why);
  }
  if (!experiment.paused) return "";
  const std::string& why = experiment.pause_reason;  // "by alice" is who, anything else is why.
  return why.empty() ? "paused" : (why.starts_with("by ") ? "paused " : "paused: ") + why;
}

Json ExperimentItem(const Core& core, const HeadFacts& facts, const Experiment& experiment) {
  const ExperimentSpec& spec = core.world.index.experiments.at(experiment.id).spec;
  std::optional<uint64_t> total = spec.TrialsTotal();
  Json item = Json::MakeObject();
  item.Set("id", experiment.id.value);
  item.Set("name", spec.name);
  item.Set("owner", experiment.owner);
  item.Set("job_id", experiment.job.value == 0 ? Json() : Json(experiment.job.value));
  item.Set("state", ExperimentStateName(core, experiment));
  std::string reason = ReasonOf(experiment);
  if (reason.empty()) reason = WhyAsking(core, experiment.id, facts.now);
  item.Set("reason", TextOrNull(reason));
  item.Set("metric", TextOrNull(spec.metric));
  item.Set("mode", spec.metric.empty() ? Json() : Json(spec.mode == Mode::kMax ? "max" : "min"));
  item.Set("objectives", ObjectivesJson(spec));
  item.Set("constraints", ConstraintsJson(spec));
  item.Set("search", spec.driver.search.empty() ? spec.search.name : spec.driver.search);
  item.Set("scheduler",
           spec.driver.scheduler.empty() ? spec.scheduler.name : spec.driver.scheduler);
  item.Set("trials_total", total ? Json(*total) : Json());
  item.Set("trials_by_state", TrialsByState(core, experiment));
  item.Set("best", BestOf(core, experiment));
  item.Set("created_at", TimeOrNull(experiment.created_at));
  item.Set("started_at", TimeOrNull(experiment.started_at));
  item.Set("ended_at", TimeOrNull(experiment.ended_at));
  Millis until = experiment.ended_at != 0 ? experiment.ended_at : facts.now;
  item.Set("elapsed_s", ToSeconds(until - experiment.created_at));
  return item;
}

Json JobItem(const Core& core, const HeadFacts& facts, const Job& job, WaitReasons& reasons) {
  const JobIndex& index = core.world.index.jobs.at(job.id);
  const Attempt* newest = job.runs.attempts.empty() ? nullptr : &job.runs.attempts.back();
  bool over = job.end != JobEnd::kNone;
  Json argv = Json::MakeArray(), experiments = Json::MakeArray();
  for (const std::string& argument : index.spec.argv) argv.Append(argument);
  for (ExperimentId id : index.experiments) experiments.Append(Json(id.value));
  Waiting waiting = reasons.Of(Owner::Of(job.id));
  std::string reason = !job.reason.empty()        ? job.reason
                       : !job.stop_reason.empty() ? job.stop_reason
                                                  : waiting.reason;
  if (reason.empty() && !over) reason = WhyJobRuns(core, job.id, facts.now);
  Json item = Json::MakeObject();
  item.Set("id", job.id.value);
  item.Set("name", index.spec.name);
  item.Set("owner", job.owner);
  item.Set("state", JobStateName(core, job));
  item.Set("reason", TextOrNull(reason));
  item.Set("argv", std::move(argv));
  item.Set("node_id", newest == nullptr ? Json() : Json(newest->members.front().node.value));
  item.Set("attempt", newest == nullptr ? Json() : Json(newest->number));
  item.Set("exit_code", over && job.signal == 0 ? Json(job.exit_code) : Json());
  item.Set("signal", over && job.signal != 0 ? Json(job.signal) : Json());
  item.Set("experiment_ids", std::move(experiments));
  item.Set("bundle", TextOrNull(index.spec.bundle));
  item.Set("created_at", TimeOrNull(job.created_at));
  item.Set("started_at", TimeOrNull(job.started_at));
  item.Set("ended_at", TimeOrNull(job.ended_at));
  Millis until = job.ended_at != 0 ? job.ended_at : facts.now;
  item.Set("runtime_s", job.started_at == 0 ? Json() : Json(ToSeconds(until - job.started_at)));
  return item;
}

Json UseOf(const Core& core) {
  Resources total, used;
  for (const auto& [id, node] : core.world.state.nodes) {
    if (!node.ready || !node.counts()) continue;
    total.Add(node.inventory.resources);
    auto index = core.world.index.nodes.find(id);
    if (index != core.world.index.nodes.end()) used.Add(index->second.used);
  }
  Json all = ToJson(total), taken = ToJson(used);
  Json out = Json::MakeObject();
  for (const char* key : {"cpu", "gpu", "memory_bytes"})
    out.Set(key, Json::MakeObject({{"total", all[key]}, {"used", taken[key]}}));
  const std::map<std::string_view, Json> busy(taken["custom"].object().begin(),
                                              taken["custom"].object().end());
  Json custom = Json::MakeObject();
  for (const auto& [name, amount] : all["custom"].object()) {
    const auto of_name = busy.find(name);
    custom.object().emplace_back(
        name, Json::MakeObject({{"total", amount},
                                {"used", of_name == busy.end() ? Json(0) : of_name->second}}));
  }
  out.Set("custom", std::move(custom));
  return out;
}

Json StoreOf(const StoreFacts& store) {
  return Json::MakeObject(
      {{"used_bytes", Json(store.used_bytes)},
       {"quota_bytes", store.quota_bytes > 0 ? Json(store.quota_bytes) : Json()},
       {"refused", store.refuses},
       {"reason", store.refuses ? Json(store.reason) : Json()}});
}

bool HasStarted(const Runs& runs) {
  const bool some = std::any_of(runs.attempts.begin(), runs.attempts.end(),
                                [](const Attempt& attempt) { return attempt.started_at != 0; });
  return some || runs.next_attempt > runs.attempts.size() + 1;  // The first ones are dropped.
}

// Trials of a search that was ended before their turn came. The scan is for such searches only.
uint64_t NeverStarted(const Core& core, const Experiment& experiment) {
  uint64_t never = 0;
  if (core.world.index.experiments.at(experiment.id).stopped > 0)
    for (const Trial& trial : experiment.trials)
      never += trial.end == TrialEnd::kStopped && !HasStarted(trial.runs) ? 1 : 0;
  return never;
}

// The failure that is newest. The scan is for the few experiments in which something failed.
Json LastErrorOf(const Core& core, const Experiment& experiment) {
  const Trial* newest = nullptr;
  if (core.world.index.experiments.at(experiment.id).failed > 0)
    for (const Trial& trial : experiment.trials)
      if (trial.end == TrialEnd::kFailed && (!newest || trial.ended_at >= newest->ended_at))
        newest = &trial;
  if (newest == nullptr) return Json();
  const bool known = !newest->error.message.empty() || !newest->error.kind.empty();
  return Json::MakeObject(
      {{"trial_id", ToString(newest->id)},
       {"class", TextOrNull(newest->error.kind)},
       {"message", TextOrNull(known ? newest->error.message : newest->reason)}});
}

// What of the items Status lists.
struct Part {
  Json items = Json::MakeArray();
  uint64_t left_out = 0;
};
template <class Map, class IsOver, class Make>
Part PartOf(const Map& all, size_t over_max, const IsOver& is_over, const Make& make) {
  using Item = typename Map::const_pointer;
  std::vector<Item> open, over;
  for (const auto& item : all) (is_over(item.second) ? over : open).push_back(&item);
  std::map<typename Map::key_type, Json> made;
  size_t bytes = 0;
  auto take = [&](Item item) {
    Json json = make(item->second);
    const size_t size = TextBytesOf(json);
    if (bytes + size > limits::kStatusPartBytes) return;
    bytes += size;
    made.emplace(item->first, std::move(json));
  };
  for (size_t i = 0; i < std::min(open.size(), limits::kStatusOpenMax); ++i) take(open[i]);
  for (size_t i = 0; i < std::min(over.size(), over_max); ++i) take(over[over.size() - 1 - i]);
  Part part{.left_out = all.size() - made.size()};
  for (auto& [id, json] : made) part.items.Append(std::move(json));
  return part;
}

}  // namespace

const char* ExperimentStateName(const Core& core, const Experiment& experiment) {
  if (experiment.finished) return EndName(experiment.end);
  if (experiment.stop_cause != StopCause::kNone) return "STOPPING";
  if (experiment.paused && core.world.index.experiments.at(experiment.id).live.empty())
    return "PAUSED";
  return experiment.started_at == 0 ? "PENDING" : "RUNNING";
}

const char* JobStateName(const Core&, const Job& job) {
  switch (job.end) {
    case JobEnd::kSucceeded: return "SUCCEEDED";
    case JobEnd::kFailed: return "FAILED";
    case JobEnd::kStopped: return "STOPPED";
    case JobEnd::kNone: break;
  }
  if (job.stop_requested) return "STOPPING";
  const Attempt* live = job.runs.live();
  if (live == nullptr) return "PENDING";
  return live->started_at == 0 ? "STARTING" : "RUNNING";
}

static std::string NameOf(const State& state, NodeId id) {
  auto node = state.nodes.find(id);
  return node == state.nodes.end() ? std::to_string(id.value) : node->second.name;
}

static Json OtherHeadOf(const Core& core) {
  const OtherHead& other = core.soft.other_head;
  if (other.node.value == 0) return Json();
  return Json::MakeObject(
      {{"epoch", Json(other.epoch)}, {"heard_by", Json(NameOf(core.world.state, other.node))}});
}

static Json RolledBackOf(const Core& core) {
  const Soft& soft = core.soft;
  if (soft.forgotten_to == 0) return Json();
  return Json::MakeObject({{"seq", Json(soft.started_seq - 1)},
                           {"seen_seq", Json(soft.forgotten_to)},
                           {"records_lost", Json(soft.records_forgotten())}});
}

Json StatusView(const Core& core, const HeadFacts& facts, bool whole) {
  const State& state = core.world.state;
  Json by_state = Json::MakeObject();
  size_t present = 0;
  for (const auto& [id, node] : state.nodes) {
    present += node.gone ? 0 : 1;
    Json& count = by_state[NodeStateName(core, node)];
    count = Json(count.is_null() ? 1 : count.AsInt() + 1);
  }
  if (const size_t requested = RequestedMachines(state).size(); requested > 0)
    by_state.Set("REQUESTED", Json(requested));
  Json cluster = Json::MakeObject({{"name", state.cluster_name},
                                   {"id", state.cluster_id},
                                   {"head_address", facts.address},
                                   {"version", RT_VERSION},
                                   {"epoch", Json(state.epoch)},
                                   {"other_head", OtherHeadOf(core)},
                                   {"rolled_back", RolledBackOf(core)},
                                   {"port_problem", TextOrNull(facts.port_fault)},
                                   {"started_at", TimeOrNull(state.started_at)},
                                   {"uptime_s", ToSeconds(facts.now - state.started_at)}});
  WaitReasons reasons(core, facts.now);
  WaitLists waits = WaitsOf(core, facts, reasons);
  const size_t over_max = whole ? limits::kStatusWholeMax : limits::kStatusOverMax;
  Part experiments = PartOf(
      state.experiments, over_max, [](const Experiment& one) { return one.finished; },
      [&](const Experiment& one) { return ExperimentItem(core, facts, one); });
  Part jobs = PartOf(
      state.jobs, over_max, [](const Job& one) { return one.end != JobEnd::kNone; },
      [&](const Job& one) { return JobItem(core, facts, one, reasons); });
  return Json::MakeObject(
      {{"schema", 1},
       {"cluster", std::move(cluster)},
       {"nodes", Json::MakeObject({{"total", Json(present)}, {"by_state", std::move(by_state)}})},
       {"resources", UseOf(core)},
       {"pools", PoolListView(core, facts)},
       {"requested_resources", RequestedView(core, facts)},
       {"hook_problem", TextOrNull(facts.hook_problem)},
       {"experiments", std::move(experiments.items)},
       {"experiments_left_out", Json(experiments.left_out)},
       {"jobs", std::move(jobs.items)},
       {"jobs_left_out", Json(jobs.left_out)},
       {"executors", ExecutorCounts(core)},
       {"pending", std::move(waits.pending)},
       {"waiting", std::move(waits.waiting)},
       {"waiting_left_out", Json(waits.left_out)},
       {"outputs_pending", OutputsPending(core)},
       {"checkpoint_store", StoreOf(facts.store)},
       {"journal",
        Json::MakeObject({{"seq", Json(state.seq)},
                          {"durable_seq", Json(facts.durable_seq)},
                          {"bytes_synced", Json(facts.bytes_synced)},
                          {"shipped_seq",
                           facts.shipped_seq.has_value() ? Json(*facts.shipped_seq) : Json()}})}});
}

Json ExperimentPageView(const Core& core, const HeadFacts& facts, const ListSpan& span) {
  return PageOf(core.world.state.experiments, span,
                [&](const Experiment& item) { return ExperimentItem(core, facts, item); });
}

Json ExperimentListView(const Core& core, const HeadFacts& facts) {
  return ListOf(core.world.state.experiments,
                [&](const Experiment& item) { return ExperimentItem(core, facts, item); });
}

absl::StatusOr<Json> ExperimentView(const Core& core, const HeadFacts& facts, ExperimentId id) {
  auto found = core.world.state.experiments.find(id);
  if (found == core.world.state.experiments.end())
    return NotFound("there is no experiment " + std::to_string(id.value));
  const Experiment& experiment = found->second;
  const ExperimentSpec& spec = core.world.index.experiments.at(id).spec;
  Json item = ExperimentItem(core, facts, experiment);
  Json text = ParsedOrNull(experiment.spec_text);
  const Json* space = text.Find("space");
  const Json* stop = text.Find("stop");
  item.Set("space", space == nullptr ? Json::MakeObject() : *space);
  item.Set("stop", stop == nullptr ? Json() : *stop);
  item.Set("spec", std::move(text));
  item.Set("resources_per_trial", ToJson(spec.resources));
  item.Set("priority", spec.priority);
  item.Set("max_concurrent", spec.max_concurrent == 0 ? Json() : Json(spec.max_concurrent));
  item.Set("search_choice",
           TextOrNull(spec.driver.search.empty() ? SearcherOf(spec).Explain(spec) : ""));
  item.Set("search_model", BeliefOf(core, id));
  item.Set("plateau", PlateauOf(experiment, spec.experiment_plateau));
  item.Set("seed", experiment.seed);
  item.Set("bundle", TextOrNull(spec.bundle));
  item.Set("results_dir", experiment.results_dir);
  const auto& problems = core.soft.results_problems;
  item.Set("results_problem", problems.contains(id) ? Json(problems.at(id)) : Json());
  double lost_gpu_s = 0;
  for (const Trial& trial : experiment.trials)
    lost_gpu_s += LostGpuSeconds(RequestOf(core.world, Owner::Of(trial.id)), trial);
  item.Set("lost_gpu_s", lost_gpu_s);
  const ChosenAlgorithms& chosen = core.world.index.experiments.at(id).chosen;
  if (chosen.clones) item.Set("population", PopulationOf(experiment));
  item.Set("rungs",
           chosen.clones ? Json::MakeArray() : RungsOf(experiment, spec.mode, chosen.reviews));
  item.Set("allocation",
           spec.resources.is_elastic() ? AllocationOf(experiment) : Json::MakeArray());
  item.Set("last_error", LastErrorOf(core, experiment));
  item.Set("trials_never_started", NeverStarted(core, experiment));
  item.Set("warnings", TextsJson(WarningsOf(core.world, experiment)));
  return item;
}

Json JobPageView(const Core& core, const HeadFacts& facts, const ListSpan& span) {
  WaitReasons reasons(core, facts.now);
  return PageOf(core.world.state.jobs, span,
                [&](const Job& item) { return JobItem(core, facts, item, reasons); });
}

Json JobListView(const Core& core, const HeadFacts& facts) {
  WaitReasons reasons(core, facts.now);
  return ListOf(core.world.state.jobs,
                [&](const Job& item) { return JobItem(core, facts, item, reasons); });
}

absl::StatusOr<Json> JobView(const Core& core, const HeadFacts& facts, JobId id) {
  auto found = core.world.state.jobs.find(id);
  if (found == core.world.state.jobs.end())
    return NotFound("there is no job " + std::to_string(id.value));
  WaitReasons reasons(core, facts.now);
  Json item = JobItem(core, facts, found->second, reasons);
  item.Set("attempts", AttemptsOf(core, Owner::Of(found->first), found->second.runs));
  item.Set("warnings", TextsJson(core.world.index.jobs.at(id).warnings));
  item.Set("outputs", OutputsOf(found->second.runs));
  item.Set("outputs_pending", AwaitsOutputs(core, Owner::Of(id), found->second.runs));
  return item;
}

Json TokenListView(const Core& core, const HeadFacts& facts) {
  std::map<std::pair<Millis, std::string>, Json> by_expiry;
  for (const auto& [id, token] : core.world.state.tokens) {
    if (token.expires_at <= facts.now) continue;
    by_expiry[{token.expires_at, id}] =
        Json::MakeObject({{"id", id},
                          {"role", token.role},
                          {"name", TextOrNull(token.bound_name())},
                          {"pool", TextOrNull(token.pool)},
                          {"expires_at", TimeOrNull(token.expires_at)}});
  }
  Json list = Json::MakeArray();
  for (auto& [expiry, item] : by_expiry) list.Append(std::move(item));
  return Listing(std::move(list));
}

}  // namespace rt
