#include "head/service/operations.h"

#include <charconv>
#include <random>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/core/requests.h"
#include "head/service/results_dir.h"
#include "head/service/translate.h"

namespace rt {
namespace {

ExperimentId Newest(const Core& core, ExperimentId id) {
  const auto& all = core.world.state.experiments;
  return id.value == 0 && !all.empty() ? all.rbegin()->first : id;
}
JobId Newest(const Core& core, JobId id) {
  const auto& all = core.world.state.jobs;
  return id.value == 0 && !all.empty() ? all.rbegin()->first : id;
}
TrialId Newest(const Core& core, TrialId id) { return {Newest(core, id.experiment), id.number}; }

NodeId NodeNamed(const Core& core, const std::string& name_or_id) {
  NodeId found;
  const char* end = name_or_id.data() + name_or_id.size();
  auto [stop, error] = std::from_chars(name_or_id.data(), end, found.value);
  if (error == std::errc() && stop == end) return found;
  found = {};
  // The newest of that name that is not gone, else the newest.
  for (const auto& [id, node] : core.world.state.nodes) {
    if (node.name != name_or_id) continue;
    bool better = found.value == 0 || !node.gone || core.world.state.nodes.at(found).gone;
    if (better) found = id;
  }
  return found;
}

uint64_t DrawSeed() {
  std::random_device device;
  return ((uint64_t{device()} << 32) | device()) >> 11;  // Exact as a double in JSON readers.
}

Json AnswerJson(const Answer& answer) {
  return Json::MakeObject({{"experiment", answer.experiment.value},
                           {"job", answer.job.value},
                           {"results_dir", answer.results_dir},
                           {"attached", answer.attached}});
}

}  // namespace

std::string ProgressVersion(const Core& core, const Experiment& experiment) {
  std::string version = ExperimentStateName(core, experiment);
  auto found = core.world.index.experiments.find(experiment.id);
  if (found == core.world.index.experiments.end()) return version;
  const ExperimentIndex& index = found->second;
  std::map<std::string, uint64_t> live;
  for (uint32_t number : index.live)
    ++live[TrialStateName(core, experiment.trials[number])];
  for (uint64_t count : {uint64_t{index.pending.size()}, index.completed, index.stopped,
                         index.failed, uint64_t{experiment.finished}})
    version += "." + std::to_string(count);
  for (const auto& [name, count] : live) version += "." + name + std::to_string(count);
  return version;
}

void Operations::AskPage(const ListSpan& span, PageView view, JsonDone done) {
  Ask([span, view](const Core& core, const HeadFacts& facts) { return view(core, facts, span); },
      std::move(done));
}

void Operations::Ask(View view, JsonDone done) {
  auto result = std::make_shared<absl::StatusOr<Json>>(absl::UnknownError("not read"));
  loop_.Query(
      [this, result, view = std::move(view)](const Core& core) {
        *result = view(core, settings_.FactsNow(loop_));
      },
      [result, done = std::move(done)](absl::Status status) {
        if (!status.ok()) return done(status);
        done(std::move(*result));
      });
}

void Operations::Post(Input input, JsonDone done) {
  loop_.Post(std::move(input), [done = std::move(done)](absl::Status status, const Answer& answer) {
    if (!status.ok()) return done(status);
    done(AnswerJson(answer));
  });
}

void Operations::GetNode(const std::string& name_or_id, JsonDone done) {
  Ask(
      [name_or_id](const Core& core, const HeadFacts& facts) -> absl::StatusOr<Json> {
        const NodeId id = NodeNamed(core, name_or_id);
        const auto known = core.world.state.nodes.find(id);
        if (known != core.world.state.nodes.end() && !known->second.gone)
          return NodeView(core, facts, id);
        absl::StatusOr<Json> requested = RequestedNodeView(core, facts, name_or_id);
        return requested.ok() || id.value == 0 ? requested : NodeView(core, facts, id);
      },
      std::move(done));
}

void Operations::FindExperiment(NewExperiment request, JsonDone done) {
  absl::Status size = CheckSize("request_key", request.key.size(), limits::kNameBytesMax);
  if (!size.ok()) return done(size);
  absl::StatusOr<Json> spec = Json::Parse(request.spec);
  if (!spec.ok()) return done(spec.status());
  Ask([owner = std::move(request.owner), key = std::move(request.key), spec = *std::move(spec)](
          const Core& core, const HeadFacts&) -> absl::StatusOr<Json> {
    RT_ASSIGN_OR_RETURN(const Experiment* known, FindCreated(core.world.state, owner, key, spec));
    if (known == nullptr) return Json();
    return AnswerJson(
        {.experiment = known->id, .results_dir = known->results_dir, .attached = true});
  }, std::move(done));
}

void Operations::CreateExperiment(NewExperiment request, JsonDone done) {
  FindExperiment(request, [this, request, done = std::move(done)](absl::StatusOr<Json> found) {
    if (!found.ok() || !found->is_null()) return done(std::move(found));
    io_([this, request, done] { CreateNew(request, done); });
  });
}

void Operations::CreateNew(NewExperiment request, JsonDone done) {
  absl::Status size = CheckSize("the spec", request.spec.size(), limits::kSpecBytesMax);
  if (!size.ok()) return done(size);
  absl::StatusOr<Json> json = Json::Parse(request.spec);
  if (!json.ok()) return done(json.status());
  absl::StatusOr<ExperimentSpec> spec = ParseExperimentSpec(*json);
  if (!spec.ok()) return done(spec.status());
  if (absl::Status bundle = settings_.CheckSubmitted(spec->bundle); !bundle.ok())
    return done(bundle);
  absl::StatusOr<std::string> reserved = ReserveResultsDir(*spec, settings_.roots);
  if (!reserved.ok()) return done(reserved.status());
  auto answered = [&roots = settings_.roots, reserved = *reserved,
                   done = std::move(done)](absl::StatusOr<Json> answer) {
    const bool used = answer.ok() && answer->GetString("results_dir") == reserved;
    if (!used) ReleaseResultsDir(reserved, roots);
    done(std::move(answer));
  };
  Post(input::CreateExperiment{.owner = std::move(request.owner),
                               .job = request.job,
                               .spec = std::move(request.spec),
                               .request_key = std::move(request.key),
                               .drawn_seed = DrawSeed(),
                               .results_root = settings_.roots.results_root(),
                               .reserved_dir = *reserved},
       std::move(answered));
}

void Operations::GetExperiment(ExperimentId id, JsonDone done) {
  Ask([id](const Core& core, const HeadFacts& facts) {
    return ExperimentView(core, facts, Newest(core, id));
  }, std::move(done));
}

void Operations::WaitExperiment(ExperimentId id, Span span, JsonDone done) {
  auto check = [id, span](const Core& core, const HeadFacts& facts,
                          bool last) -> std::optional<absl::StatusOr<Json>> {
    const auto& all = core.world.state.experiments;
    auto found = all.find(Newest(core, id));
    if (found == all.end()) return NotFound("there is no experiment " + std::to_string(id.value));
    const bool is_due = last || found->second.finished;
    if (!is_due && span.until_end) return std::nullopt;
    std::string version = ProgressVersion(core, found->second);
    if (!is_due && version == span.seen) return std::nullopt;
    absl::StatusOr<Json> view = ExperimentView(core, facts, found->first);
    if (view.ok()) view->Set("version", version);
    return view;
  };
  waits_.Add(span.role, std::move(check), span.hold, std::move(done));
}

void Operations::StopExperiment(ExperimentId id, const std::string& reason, JsonDone done) {
  if (auto size = CheckSize("reason", reason.size(), limits::kReasonBytesMax); !size.ok())
    return done(size);
  Post(input::StopExperiment{id, reason}, std::move(done));
}

void Operations::ListTrials(ExperimentId id, std::optional<TrialId> from, JsonDone done) {
  TrialSpan span{id.value == 0 ? std::nullopt : std::optional(id), from};
  Ask([span](const Core& core, const HeadFacts& facts) {
    return TrialListView(core, facts, span);
  }, std::move(done));
}

void Operations::GetTrial(TrialId id, JsonDone done) {
  Ask([id](const Core& core, const HeadFacts& facts) {
    return TrialView(core, facts, Newest(core, id));
  }, std::move(done));
}

void Operations::StopTrial(TrialId id, const std::string& reason, JsonDone done) {
  if (auto size = CheckSize("reason", reason.size(), limits::kReasonBytesMax); !size.ok())
    return done(size);
  Post(input::StopTrial{id, reason}, std::move(done));
}

void Operations::ReadRows(const RowsAsk& ask, JsonDone done) {
  ReadTrialRows(loop_, journal_, io_, ask, std::move(done));
}

void Operations::SubmitJob(const std::string& owner, const std::string& spec,
                           const std::string& key, JsonDone done) {
  absl::Status size = CheckSize("the spec", spec.size(), limits::kSpecBytesMax);
  if (size.ok()) size = CheckSize("request_key", key.size(), limits::kNameBytesMax);
  if (!size.ok()) return done(size);
  io_([this, owner, spec, key, done = std::move(done)] {
    absl::Status bundle;
    if (const absl::StatusOr<Json> json = Json::Parse(spec); json.ok())
      bundle = settings_.CheckSubmitted(json->GetString("bundle"));  // The core reads the rest.
    if (!bundle.ok()) return done(bundle);
    Post(input::SubmitJob{owner, spec, key}, done);
  });
}

void Operations::GetJob(JobId id, JsonDone done) {
  Ask([id](const Core& core, const HeadFacts& facts) {
    return JobView(core, facts, Newest(core, id));
  }, std::move(done));
}

void Operations::WaitJob(JobId id, Span span, JsonDone done) {
  auto check = [id, seen = span.seen](const Core& core, const HeadFacts& facts,
                                      bool last) -> std::optional<absl::StatusOr<Json>> {
    const auto& all = core.world.state.jobs;
    auto found = all.find(Newest(core, id));
    if (found == all.end()) return NotFound("there is no job " + std::to_string(id.value));
    bool terminal = found->second.end != JobEnd::kNone;
    if (!last && !terminal && seen == JobStateName(core, found->second)) return std::nullopt;
    return JobView(core, facts, found->first);
  };
  waits_.Add(span.role, std::move(check), span.hold, std::move(done));
}

void Operations::StopJob(JobId id, const std::string& reason, JsonDone done) {
  if (auto size = CheckSize("reason", reason.size(), limits::kReasonBytesMax); !size.ok())
    return done(size);
  Post(input::StopJob{id, reason}, std::move(done));
}

}  // namespace rt
