#include "head/service/shutdown.h"

#include "common/base/status.h"

namespace rt {
namespace {

// Longer than a stop's grace with its checkpoint, shorter than a person's patience.
constexpr Millis kStopMax = 20'000;

struct OpenWork {
  std::vector<JobId> jobs;
  std::vector<ExperimentId> experiments;
};

OpenWork FindOpen(const Core& core) {
  OpenWork open;
  for (const auto& [id, job] : core.world.state.jobs)
    if (job.end == JobEnd::kNone) open.jobs.push_back(id);
  const auto& experiments = core.world.index.open_experiments;
  open.experiments.assign(experiments.begin(), experiments.end());
  return open;
}

// An ended job's or experiment's processes are gone: attempts end before their owners do.
void AwaitEnd(Waits& waits, bool flush_only, StatusDone done) {
  auto check = [flush_only](const Core& core, const HeadFacts&,
                            bool last) -> std::optional<absl::StatusOr<Json>> {
    OpenWork open = FindOpen(core);
    bool flushed = core.world.index.unflushed_experiments.empty();
    if (flushed && (flush_only || (open.jobs.empty() && open.experiments.empty()))) return Json();
    if (!last) return std::nullopt;
    return absl::StatusOr<Json>(absl::DeadlineExceededError(
        std::to_string(open.jobs.size()) + " jobs and " + std::to_string(open.experiments.size()) +
        " experiments have not ended in time"));
  };
  waits.Add(std::move(check), kStopMax,
            [done = std::move(done)](const absl::StatusOr<Json>& end) { done(end.status()); });
}

}  // namespace

void StopEverything(HeadLoop& loop, Waits& waits, const StopRules& rules, StatusDone done) {
  auto open = std::make_shared<OpenWork>();
  auto begin = [&loop, &waits, rules, open, done = std::move(done)](absl::Status status) {
    bool idle = open->jobs.empty() && open->experiments.empty();
    if (status.ok() && rules.only_if_idle && !idle)
      status = absl::FailedPreconditionError("jobs or experiments are open");
    if (!status.ok()) return done(status);
    if (!rules.flush_only) {
      HeadLoop::AnswerFn ignore = [](const absl::Status&, const Answer&) {};
      for (JobId job : open->jobs)
        loop.Post(input::StopJob{job, "the cluster is going down"}, ignore);
      for (ExperimentId experiment : open->experiments)
        loop.Post(input::StopExperiment{experiment, "the cluster is going down"}, ignore);
    }
    AwaitEnd(waits, rules.flush_only, done);
  };
  loop.Query([open](const Core& core) { *open = FindOpen(core); }, std::move(begin));
}

}  // namespace rt
