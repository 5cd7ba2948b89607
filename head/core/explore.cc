// Clones whose configurations come from a model on the compute lane (lane.h): what the model is
// asked, as a function of the state, and what becomes of its answer.
#include <algorithm>
#include <map>

#include "common/base/limits.h"
#include "head/core/answers.h"
#include "head/core/lane.h"

namespace rt {
namespace {

// What each trial had at its milestones.
using Courses = std::map<uint32_t, std::map<double, RungEntry>>;

Courses CoursesOf(const Experiment& experiment) {
  Courses courses;
  for (const Rung& rung : experiment.rungs)
    for (const RungEntry& entry : rung.entries) courses[entry.trial][rung.milestone] = entry;
  return courses;
}

// The trial was cloned in an attempt from `from` to the one before `to`: it continued from there.
const TrialClone* CloneBetween(const Trial& trial, uint32_t from, uint32_t to) {
  const TrialClone* found = nullptr;
  for (const TrialClone& clone : trial.clones)
    if (clone.attempt >= from && clone.attempt < to) found = &clone;
  return found;
}

// The value from which the trial came to its milestone, and when that was: its own before, or that
// of the trial whose checkpoint it took; nullopt: neither is known.
std::optional<std::pair<double, double>> BaseOf(const Courses& courses, const Trial& trial,
                                                double milestone, const RungEntry& entry) {
  const auto& own = courses.at(trial.id.number);
  const auto here = own.find(milestone);
  const uint32_t since = here == own.begin() ? 0 : std::prev(here)->second.attempt;
  const TrialClone* clone = CloneBetween(trial, since, entry.attempt);
  if (clone == nullptr) {
    if (here == own.begin()) return std::nullopt;
    return std::pair(std::prev(here)->first, std::prev(here)->second.value);
  }
  const auto parent = courses.find(clone->from);
  if (parent == courses.end()) return std::nullopt;
  const auto later = parent->second.lower_bound(milestone);
  if (later == parent->second.begin()) return std::nullopt;
  return std::pair(std::prev(later)->first, std::prev(later)->second.value);
}

std::vector<ExploreSample> SamplesOf(const Experiment& experiment, Mode mode) {
  const Courses courses = CoursesOf(experiment);
  std::vector<ExploreSample> samples;
  for (const auto& [number, course] : courses) {
    const Trial& trial = experiment.trials.at(number);
    for (const auto& [milestone, entry] : course) {
      const auto base = BaseOf(courses, trial, milestone, entry);
      if (!base) continue;
      const double change = (entry.value - base->second) / (milestone - base->first);
      samples.push_back(
          {milestone, mode == Mode::kMax ? change : -change, trial.ParamsOf(entry.attempt)});
    }
  }
  std::stable_sort(samples.begin(), samples.end(),
                   [](const ExploreSample& a, const ExploreSample& b) { return a.time < b.time; });
  if (samples.size() > limits::kExploreSamplesMax)
    samples.erase(samples.begin(), samples.end() - limits::kExploreSamplesMax);
  return samples;
}

// Whether it was cloned since it was recorded at its newest milestone.
bool IsCloned(const Experiment& experiment, const Trial& trial) {
  if (trial.clones.empty()) return false;
  const double newest = *trial.milestones.rbegin();
  for (const Rung& rung : experiment.rungs) {
    if (rung.milestone != newest || rung.bracket != trial.bracket) continue;
    for (const RungEntry& entry : rung.entries)
      if (entry.trial == trial.id.number) return trial.clones.back().attempt >= entry.attempt;
  }
  return true;
}

bool MayExplore(const Experiment& experiment, const Trial& trial) {
  return IsOpen(trial) && !trial.milestones.empty() && !IsCloned(experiment, trial);
}

}  // namespace

std::vector<ExploreQuestion> QuestionsOf(const World& world, ExperimentId id,
                                         const std::vector<uint32_t>& trials) {
  const Experiment& experiment = world.state.experiments.at(id);
  std::vector<ExploreQuestion> questions;
  if (experiment.finishing || experiment.stop_cause != StopCause::kNone) return questions;
  std::optional<std::vector<ExploreSample>> samples;  // The same for all of them.
  for (uint32_t number : trials) {
    const Trial& trial = experiment.trials.at(number);
    if (!MayExplore(experiment, trial)) continue;
    const std::optional<uint32_t> parent = ParentOf(world, trial.id);
    if (!parent) continue;
    if (!samples) samples = SamplesOf(experiment, world.index.experiments.at(id).spec.mode);
    ExploreQuestion& question =
        questions.emplace_back(ExploreQuestion{.trial = number,
                                               .from = *parent,
                                               .comparisons = trial.milestones.size(),
                                               .base = experiment.trials.at(*parent).params,
                                               .time = *trial.milestones.rbegin(),
                                               .samples = *samples});
    for (const Trial& other : experiment.trials)
      if (other.id != trial.id && IsOpen(other)) question.pending.push_back(other.params);
  }
  return questions;
}

event::Answered ClonesOfLane(const World& world, const input::LaneAnswered& answered) {
  const ExperimentId id = answered.experiment;
  const Experiment& experiment = world.state.experiments.at(id);
  event::Answered answer =
      AnswerOf(world, id, world.index.experiments.at(id).chosen.scheduler->table());
  answer.observed_through = answered.observed_through;
  for (const input::LaneAnswered::Explored& one : answered.explored) {
    if (one.trial >= experiment.trials.size() || one.from >= experiment.trials.size()) continue;
    const Trial& trial = experiment.trials[one.trial];
    const Trial& parent = experiment.trials[one.from];
    const uint64_t checkpoint = NewestStored(parent.runs);
    // The population may have changed since it was asked about.
    const bool is_as_asked =
        trial.milestones.size() == one.comparisons && parent.params == one.base;
    if (!is_as_asked || !MayExplore(experiment, trial) || !IsOpen(parent) || checkpoint == 0)
      continue;
    answer.cloned.push_back({one.trial, one.from, checkpoint, one.params});
    if (!one.fallback.empty()) answer.fallbacks.push_back({one.trial, one.fallback});
  }
  return answer;
}

}  // namespace rt
