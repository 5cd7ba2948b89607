#include "head/service/shutdown.h"

#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

// Longer than a stop's grace with its checkpoint, shorter than a person's patience.
constexpr Millis kStopMax = 20'000;

struct OpenWork {
  std::vector<JobId> jobs;
  std::vector<ExperimentId> experiments;
  std::vector<ExecutorId> executors;
  bool all_released = true;  // All of `executors`: their driver has just ended.

  bool is_none() const { return jobs.empty() && experiments.empty() && executors.empty(); }
};

OpenWork FindOpen(const Core& core) {
  OpenWork open;
  for (const auto& [id, job] : core.world.state.jobs)
    if (job.end == JobEnd::kNone) open.jobs.push_back(id);
  const auto& experiments = core.world.index.open_experiments;
  open.experiments.assign(experiments.begin(), experiments.end());
  for (const auto& [id, spec] : core.world.index.executors.specs) {
    open.executors.push_back(id);
    open.all_released = open.all_released && core.world.state.executors.at(id).release_requested;
  }
  return open;
}

// "experiments 3 (lr-search), 4 (sweep)"; at most so many are named.
template <class Ids, class Name>
std::string Named(const char* noun, const Ids& ids, const Name& name) {
  constexpr size_t kNamedMax = 5;
  std::string text = noun + std::string(ids.size() == 1 ? " " : "s ");
  size_t named = 0;
  for (const auto& id : ids) {
    if (named == kNamedMax) return text + " and " + std::to_string(ids.size() - named) + " more";
    text += (named++ == 0 ? "" : ", ") + std::to_string(id.value) + " (" + name(id) + ")";
  }
  return text;
}

absl::Status NotInTime(const Core& core, const OpenWork& open) {
  const auto job_name = [&](JobId id) { return core.world.index.jobs.at(id).spec.name; };
  const auto experiment_name = [&](ExperimentId id) {
    return core.world.index.experiments.at(id).spec.name;
  };
  std::vector<std::string> late;
  if (!open.jobs.empty()) late.push_back(Named("job", open.jobs, job_name) + " did not end");
  if (!open.experiments.empty())
    late.push_back(Named("experiment", open.experiments, experiment_name) + " did not end");
  const auto executor_name = [&](ExecutorId id) { return core.world.state.executors.at(id).name; };
  if (!open.executors.empty())
    late.push_back(Named("executor", open.executors, executor_name) + " did not end");
  if (const auto& unflushed = core.world.index.unflushed_experiments; !unflushed.empty())
    late.push_back("the result files of " + Named("experiment", unflushed, experiment_name) +
                   " are not written down");
  return absl::DeadlineExceededError(
      ToAbsl("after " + std::to_string(kStopMax / 1'000) + " s: " + Join(late, "; ")));
}

// An ended job's or experiment's processes are gone: attempts end before their owners do.
void AwaitEnd(Waits& waits, bool flush_only, StatusDone done) {
  auto check = [flush_only](const Core& core, const HeadFacts&,
                            bool last) -> std::optional<absl::StatusOr<Json>> {
    OpenWork open = FindOpen(core);
    bool flushed = core.world.index.unflushed_experiments.empty();
    if (flushed && (flush_only || open.is_none())) return Json();
    if (!last) return std::nullopt;
    return absl::StatusOr<Json>(NotInTime(core, open));
  };
  waits.Add(WaitRole::kPerson, std::move(check), kStopMax,
            [done = std::move(done)](const absl::StatusOr<Json>& end) { done(end.status()); });
}

}  // namespace

void StopEverything(HeadLoop& loop, Waits& waits, const StopRules& rules, StatusDone done) {
  auto open = std::make_shared<OpenWork>();
  auto begin = [&loop, &waits, rules, open, done = std::move(done)](absl::Status status) {
    const bool idle = open->jobs.empty() && open->experiments.empty() && open->all_released;
    if (status.ok() && rules.only_if_idle && !idle)
      status = absl::FailedPreconditionError("jobs, experiments or executors are open");
    if (!status.ok()) return done(status);
    if (!rules.flush_only) {
      HeadLoop::AnswerFn ignore = [](const absl::Status&, const Answer&) {};
      for (JobId job : open->jobs)
        loop.Post(input::StopJob{job, "the cluster is going down"}, ignore);
      for (ExperimentId experiment : open->experiments)
        loop.Post(input::StopExperiment{experiment, "the cluster is going down"}, ignore);
      for (ExecutorId executor : open->executors)
        loop.Post(input::StopExecutor{executor, "", "", "the cluster is going down"}, ignore);
    }
    AwaitEnd(waits, rules.flush_only, done);
  };
  loop.Query([open](const Core& core) { *open = FindOpen(core); }, std::move(begin));
}

}  // namespace rt
