#include "head/core/answers.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <vector>

#include "common/base/limits.h"
#include "common/search/basic.h"
#include "head/core/driver_hooks.h"

namespace rt {
namespace {

const ExperimentSpec& SpecOf(const World& world, ExperimentId id) {
  return world.index.experiments.at(id).spec;
}

StopCause CauseOf(TrialVerdict::Action action) {
  return action == TrialVerdict::Action::kComplete ? StopCause::kMaxT : StopCause::kEarly;
}

bool IsEmpty(const World& world, const event::Answered& answer) {
  const bool is_new = answer.session != 0 &&
                      answer.observed_through >
                          world.state.experiments.at(answer.experiment).answered_seq;
  return !is_new && answer.created.empty() && answer.stopped.empty() && answer.paused.empty() &&
         answer.resumed.empty() && answer.cloned.empty() && answer.asked.empty() &&
         answer.allocated.empty() && !answer.finished;
}

// What is said of the trials from `first` on.
template <class Said>
void MoveLater(uint32_t first, std::vector<Said>& all, std::vector<Said>& later) {
  const auto from = std::stable_partition(all.begin(), all.end(),
                                          [&](const Said& one) { return one.number < first; });
  later.assign(from, all.end());
  all.erase(from, all.end());
}

// Leaves as many new trials in the answer as one record may have, and returns the others.
std::optional<event::Answered> SplitOff(event::Answered& answer) {
  size_t kept = 0;
  for (size_t bytes = 0; kept < answer.created.size() && bytes < limits::kAnswerBytesMax; ++kept)
    bytes += answer.created[kept].params.size() + answer.created[kept].resources.size();
  if (kept == answer.created.size()) return std::nullopt;
  event::Answered rest{.experiment = answer.experiment,
                       .algorithm = answer.algorithm,
                       .version = answer.version,
                       .observed_through = answer.observed_through,
                       .session = answer.session};
  const uint32_t first = answer.created[kept].number;
  const auto from = answer.created.begin() + static_cast<std::ptrdiff_t>(kept);
  rest.created.assign(std::make_move_iterator(from), std::make_move_iterator(answer.created.end()));
  answer.created.erase(from, answer.created.end());
  MoveLater(first, answer.paused, rest.paused);
  MoveLater(first, answer.fallbacks, rest.fallbacks);
  return rest;
}

// How many trials its search algorithm may create now.
size_t WantedTrials(const ExperimentIndex& index) {
  size_t count = limits::kTrialsPerStepMax;
  auto bound = [&](size_t most, size_t taken) {
    count = std::min(count, most > taken ? most - taken : 0);
  };
  const size_t waiting = index.pending.size() - index.paused.size();
  if (index.spec.max_concurrent > 0)
    bound(static_cast<size_t>(index.spec.max_concurrent), waiting + index.live.size());
  bound(limits::kPendingTrialsMax, waiting);
  return count;
}

const Rung* FindRung(const Experiment& experiment, uint32_t bracket, double milestone) {
  for (const Rung& rung : experiment.rungs)
    if (rung.bracket == bracket && rung.milestone == milestone) return &rung;
  return nullptr;
}

// Fills in the value at the newest milestone at which each member was recorded.
void FillScores(const Experiment& experiment, std::vector<PopulationMember>& population) {
  std::map<uint32_t, PopulationMember*> open;
  for (PopulationMember& member : population)
    if (member.comparisons > 0) open[member.number] = &member;
  // The newest rungs are the last.
  for (auto rung = experiment.rungs.rbegin(); rung != experiment.rungs.rend(); ++rung) {
    if (open.empty()) return;
    for (const RungEntry& entry : rung->entries) {
      const auto member = open.find(entry.trial);
      if (member == open.end()) continue;
      if (*experiment.trials[entry.trial].milestones.rbegin() != rung->milestone) continue;
      member->second->score = entry.value;
      open.erase(member);
    }
  }
}

uint64_t NewestReachable(const State& state, const Runs& runs) {
  for (auto one = runs.checkpoints.rbegin(); one != runs.checkpoints.rend(); ++one)
    if (IsReachable(state, *one)) return one->id;
  return 0;
}

std::vector<PopulationMember> PopulationOf(const State& state, const Experiment& experiment) {
  std::vector<PopulationMember> population;
  for (const Trial& trial : experiment.trials) {
    if (!IsOpen(trial)) continue;
    population.push_back({.number = trial.id.number,
                          .score = NAN,
                          .comparisons = trial.milestones.size(),
                          .checkpoint = NewestStored(trial.runs),
                          .params = &trial.params,
                          .is_paused = trial.pause_cause == PauseCause::kScheduler &&
                                       trial.runs.running() == nullptr,
                          .newest = NewestReachable(state, trial.runs)});
  }
  FillScores(experiment, population);
  return population;
}

// It has a checkpoint, has reported one that is not committed yet, or is asked for one.
bool MaySave(const Trial& trial) {
  const Attempt* live = trial.runs.live();
  if (trial.pause_cause != PauseCause::kNone) return true;
  return !trial.runs.checkpoints.empty() || (live != nullptr && !live->checkpoint_rows.empty());
}

// Its driver has read everything and created nothing, and only paused trials are left: what creates
// the next trials waits for results, which the scheduler alone can bring about.
bool DriverWaits(const World& world, ExperimentId id) {
  const ExperimentIndex& index = world.index.experiments.at(id);
  return index.spec.driver.searches && index.live.empty() &&
         index.pending.size() == index.paused.size() &&
         index.driver_record_seq <= world.state.experiments.at(id).answered_seq;
}

// The search may create more trials.
bool OthersCome(const World& world, ExperimentId id) {
  return !world.state.experiments.at(id).search.over && !IsExhausted(world, id);
}

// Trials that nobody has paused wait for nodes, or are still to be created. A search without an end
// has no fixed population that could take turns.
bool OthersQueue(const World& world, ExperimentId id) {
  const ExperimentIndex& index = world.index.experiments.at(id);
  if (!index.spec.TrialsTotal()) return false;
  return index.ready > 0 || !index.throttled.empty() || OthersCome(world, id);
}

bool IsClosed(const Trial& trial) {
  return !IsOpen(trial) || trial.pause_cause == PauseCause::kScheduler;
}

// Of the brackets in which trials are paused or were recorded, of which `also` is one.
void AddBrackets(const Experiment& experiment, std::optional<uint32_t> also, SearchReview& review) {
  std::map<uint32_t, BracketState> states;
  for (const PausedTrial& trial : review.paused) states[trial.bracket].number = trial.bracket;
  if (also) states[*also].number = *also;
  for (const Trial& trial : experiment.trials) {
    const auto state = states.find(trial.bracket);
    if (state == states.end()) continue;
    ++state->second.created;
    if (!IsClosed(trial)) ++state->second.open;
  }
  for (const auto& [number, state] : states) review.brackets.push_back(state);
}

// The trial as it is at its newest rung, whose members are added to the review.
PausedTrial AtRung(const Experiment& experiment, const Trial& trial, SearchReview& review) {
  const double milestone = trial.milestones.empty() ? 0 : *trial.milestones.rbegin();
  const PausedTrial paused{trial.id.number, trial.bracket, milestone, trial.is_unsaved(),
                           trial.runs.running() != nullptr};
  const bool is_known =
      std::any_of(review.rungs.begin(), review.rungs.end(), [&](const RungMembers& rung) {
        return rung.bracket == trial.bracket && rung.milestone == milestone;
      });
  const Rung* rung = is_known ? nullptr : FindRung(experiment, trial.bracket, milestone);
  if (rung == nullptr) return paused;
  RungMembers& members = review.rungs.emplace_back(RungMembers{trial.bracket, milestone, {}});
  for (const RungEntry& entry : rung->entries)
    members.members.push_back({entry.trial, entry.value});
  return paused;
}

// All rungs of the bracket; of all brackets without one.
void AddRungs(const Experiment& experiment, std::optional<uint32_t> bracket, SearchReview& review) {
  review.rungs.clear();
  for (const Rung& rung : experiment.rungs) {
    if (bracket && rung.bracket != *bracket) continue;
    RungMembers& members = review.rungs.emplace_back(RungMembers{rung.bracket, rung.milestone, {}});
    for (const RungEntry& entry : rung.entries)
      members.members.push_back({entry.trial, entry.value});
  }
}

// Of these trials those that the scheduler has paused, with their rungs.
void AddPaused(const Experiment& experiment, const std::set<uint32_t>& numbers,
               SearchReview& review) {
  for (uint32_t number : numbers) {
    const Trial& trial = experiment.trials[number];
    if (trial.pause_cause == PauseCause::kScheduler && trial.stop_cause == StopCause::kNone)
      review.paused.push_back(AtRung(experiment, trial, review));
  }
}

// What it looks at, apart from the population.
SearchReview ReviewFor(const World& world, ExperimentId id) {
  const Experiment& experiment = world.state.experiments.at(id);
  const ExperimentIndex& index = world.index.experiments.at(id);
  const bool search_waits = OthersCome(world, id) && DriverWaits(world, id);
  const bool others_come = OthersCome(world, id) && !search_waits;
  const bool others_wait = others_come || index.pending.size() != index.paused.size();
  SearchReview review{.is_idle = index.live.empty() && !others_wait && !search_waits,
                      .has_completed = index.completed > 0,
                      .others_come = others_come,
                      .others_wait = others_wait,
                      .search_waits = search_waits,
                      .others_queue = OthersQueue(world, id),
                      .seed = experiment.seed,
                      .draw = Draw};
  AddPaused(experiment, index.paused, review);
  AddPaused(experiment, index.live, review);
  return review;
}

// The clones, or the questions about them. Trials that are compared together continue together,
// once the driver has answered.
void AddClones(const ExperimentIndex& index, const std::vector<ReviewClone>& clones,
               event::Answered& answer) {
  for (const ReviewClone& clone : clones) {
    if (index.spec.driver.explores)
      answer.asked.push_back({clone.trial, clone.from, clone.params.Dump()});
    else answer.cloned.push_back({clone.trial, clone.from, clone.checkpoint, clone.params.Dump()});
  }
  if (!answer.asked.empty() && index.chosen.scheduler->compares_population(index.spec))
    answer.resumed.clear();
}

// Its population waits until the driver has answered.
bool WaitsForClones(const Experiment& experiment, const ExperimentIndex& index) {
  return index.spec.driver.explores && index.chosen.scheduler->compares_population(index.spec) &&
         std::any_of(experiment.trials.begin(), experiment.trials.end(), HasOpenClone);
}

}  // namespace

uint64_t NewestStored(const Runs& runs) {
  for (auto one = runs.checkpoints.rbegin(); one != runs.checkpoints.rend(); ++one)
    if (one->is_stored()) return one->id;
  return 0;
}

event::Answered AnswerOf(const World& world, ExperimentId id, const AlgorithmTable& table) {
  return {.experiment = id,
          .algorithm = table.name,
          .version = table.version,
          .observed_through = world.state.seq};
}

CreatedTrial NewTrial(const World& world, ExperimentId id, uint32_t number, std::string params) {
  const ExperimentSpec& spec = SpecOf(world, id);
  const uint64_t seed = world.state.experiments.at(id).seed;
  return {.number = number,
          .params = std::move(params),
          .bracket = SchedulerOf(spec).BracketOf(spec, seed, number)};
}

void AddNewTrial(const World& world, event::Answered& answer, uint32_t number, std::string params) {
  if (SpecOf(world, answer.experiment).driver.selects_next)
    answer.paused.push_back({number, "until its scheduler selects it"});
  answer.created.push_back(NewTrial(world, answer.experiment, number, std::move(params)));
}

event::Answered ProposalOf(const World& world, ExperimentId id, size_t count) {
  const Experiment& experiment = world.state.experiments.at(id);
  const ExperimentSpec& spec = SpecOf(world, id);
  const Searcher& searcher = SearcherOf(spec);
  event::Answered answer = AnswerOf(world, id, searcher.table());
  size_t bytes = 0;
  for (uint64_t number = experiment.trials.size();
       answer.created.size() < count && bytes < limits::kAnswerBytesMax; ++number) {
    if (number >= spec.TrialsTotal().value_or(UINT32_MAX)) break;
    std::optional<Json> params = searcher.Propose(spec, experiment.seed, number);
    if (!params.has_value()) break;
    AddNewTrial(world, answer, static_cast<uint32_t>(number), params->Dump());
    bytes += answer.created.back().params.size();
  }
  return answer;
}

event::Answered VerdictOn(const World& world, TrialId id, const TrialVerdict& verdict) {
  event::Answered answer =
      AnswerOf(world, id.experiment, SchedulerOf(SpecOf(world, id.experiment)).table());
  const Trial& trial = *FindTrial(world.state, id);
  if (verdict.action != TrialVerdict::Action::kPause)
    answer.stopped.push_back({id.number, CauseOf(verdict.action), verdict.reason});
  else if (trial.pause_cause == PauseCause::kNone || trial.pause_cause == PauseCause::kResources)
    answer.paused.push_back({id.number, verdict.reason});
  return answer;
}

event::Answered AnswerToEnd(const World& world, TrialId ended) {
  const ExperimentSpec& spec = SpecOf(world, ended.experiment);
  const Scheduler& scheduler = SchedulerOf(spec);
  event::Answered answer = AnswerOf(world, ended.experiment, scheduler.table());
  if (!scheduler.pauses_trials()) return answer;
  const Experiment& experiment = world.state.experiments.at(ended.experiment);
  std::vector<uint32_t> paused;
  for (uint32_t number : world.index.experiments.at(ended.experiment).pending) {
    const Trial& trial = experiment.trials[number];
    if (trial.pause_cause == PauseCause::kScheduler && trial.stop_cause == StopCause::kNone)
      paused.push_back(number);
  }
  answer.resumed = scheduler.OnTrialEnd(spec, ended.number, paused);
  return answer;
}

RowVerdict OnRow(const World& world, const Trial& trial, const RowView& row,
                 std::optional<double> best) {
  const ExperimentIndex& index = world.index.experiments.at(trial.id.experiment);
  ScheduledTrial scheduled{trial.id.number, trial.bracket, trial.milestones,
                           index.chosen.LimitsOf(trial.bracket)};
  if (index.chosen.curves_from) {
    scheduled.best = best;
    for (const Trial& other : world.state.experiments.at(trial.id.experiment).trials)
      if (&other != &trial && !other.curve.empty()) scheduled.others.push_back(&other.curve);
  }
  return index.chosen.scheduler->OnRow(index.spec, scheduled, row);
}

TrialVerdict DecideAt(const World& world, TrialId id, double milestone, double value,
                      bool with_checkpoint) {
  const Trial& trial = *FindTrial(world.state, id);
  const ExperimentSpec& spec = SpecOf(world, id.experiment);
  const Experiment& experiment = world.state.experiments.at(id.experiment);
  static const Rung none;
  const Rung* known = FindRung(experiment, trial.bracket, milestone);
  const Rung& rung = known == nullptr ? none : *known;
  RungValues before{.bracket = trial.bracket,
                    .milestone = milestone,
                    .values = rung.values,
                    .recorded = rung.recorded,
                    .may_save = with_checkpoint || experiment.unsaved_pauses == 0 || MaySave(trial),
                    .trial = id.number};
  const ChosenAlgorithms& chosen = world.index.experiments.at(id.experiment).chosen;
  SearchReview review;
  if (chosen.clones)
    before.others_queue = OthersQueue(world, id.experiment) ||
                          !world.index.experiments.at(id.experiment).paused.empty();
  if (chosen.reviews && !chosen.clones) {
    review = ReviewFor(world, id.experiment);
    before.others_wait = review.others_wait;
  }
  if (chosen.compares_brackets) {
    AddBrackets(experiment, trial.bracket, review);
    before.review = &review;
  }
  if (chosen.compares_rungs) {
    AddRungs(experiment, trial.bracket, review);
    before.review = &review;
  }
  return SchedulerOf(spec).AtMilestone(spec, before, value);
}

event::Answered ReviewOf(const World& world, ExperimentId id, std::optional<uint32_t> recorded) {
  const Experiment& experiment = world.state.experiments.at(id);
  const ExperimentIndex& index = world.index.experiments.at(id);
  event::Answered answer = AnswerOf(world, id, index.chosen.scheduler->table());
  if (!index.chosen.reviews || experiment.finishing || experiment.stop_cause != StopCause::kNone)
    return answer;
  if (WaitsForClones(experiment, index)) return answer;
  SearchReview review = ReviewFor(world, id);
  const bool compares_all = index.chosen.clones && !review.paused.empty() &&
                            index.chosen.scheduler->compares_population(index.spec);
  if (index.chosen.clones && (recorded || compares_all)) {
    review.recorded = recorded;
    review.population = PopulationOf(world.state, experiment);
  }
  if (review.paused.empty() && !review.recorded) return answer;
  if (index.chosen.compares_brackets) {
    if (recorded && !IsClosed(experiment.trials.at(*recorded)))
      review.arrived = AtRung(experiment, experiment.trials[*recorded], review);
    AddBrackets(experiment, {}, review);
  }
  if (index.chosen.compares_rungs) AddRungs(experiment, {}, review);
  ReviewVerdict verdict = index.chosen.scheduler->Review(index.spec, review);
  answer.resumed = std::move(verdict.resumed);
  for (ReviewStop& stop : verdict.stopped) {
    // A bracket is halved as a whole.
    const bool is_bounded = !index.chosen.compares_brackets;
    if (is_bounded && answer.stopped.size() == limits::kTrialsPerStepMax) break;
    answer.stopped.push_back({stop.trial, StopCause::kEarly, std::move(stop.reason)});
  }
  AddClones(index, verdict.clones, answer);
  return answer;
}

std::optional<uint32_t> ParentOf(const World& world, TrialId recorded) {
  const Experiment& experiment = world.state.experiments.at(recorded.experiment);
  const ExperimentIndex& index = world.index.experiments.at(recorded.experiment);
  SearchReview review{.recorded = recorded.number, .seed = experiment.seed, .draw = Draw};
  review.population = PopulationOf(world.state, experiment);
  return index.chosen.scheduler->ParentOf(index.spec, review);
}

void EmitAnswer(Draft& draft, event::Answered answer) {
  if (IsEmpty(draft.core.world, answer)) return;
  const ExperimentId id = answer.experiment;
  const std::vector<StoppedTrial> stopped = answer.stopped;
  const std::vector<ClonedTrial> cloned = answer.cloned;
  for (std::optional<event::Answered> rest = std::move(answer); rest.has_value();) {
    event::Answered part = *std::move(rest);
    rest = SplitOff(part);
    draft.Emit(std::move(part));
  }
  for (const ClonedTrial& clone : cloned) RetireByPolicy(draft, Owner::Of({id, clone.number}));
  for (const StoppedTrial& stop : stopped) FollowStop(draft, {id, stop.number});
}

void ProposeTrials(Draft& draft, ExperimentId id) {
  const Experiment& experiment = draft.state().experiments.at(id);
  const ExperimentIndex& index = draft.index().experiments.at(id);
  // The driver's answers create its trials, or those of the compute lane.
  if (index.spec.driver.searches || index.chosen.has_model) return;
  if (index.closed || !experiment.is_searching()) return;
  EmitAnswer(draft, ProposalOf(draft.core.world, id, WantedTrials(index)));
}

void ReviewTrials(Draft& draft, ExperimentId id, std::optional<uint32_t> recorded) {
  if (draft.index().experiments.at(id).chosen.reviews)
    EmitAnswer(draft, ReviewOf(draft.core.world, id, recorded));
}

void ReviewStored(Draft& draft, ExperimentId id) {
  const ExperimentIndex& index = draft.index().experiments.at(id);
  if (!index.paused.empty() && index.chosen.scheduler->waits_for_store()) ReviewTrials(draft, id);
}

void ScheduleAfterEnd(Draft& draft, TrialId ended) {
  const Experiment& experiment = draft.state().experiments.at(ended.experiment);
  if (experiment.finishing || experiment.stop_cause != StopCause::kNone) return;
  EmitAnswer(draft, AnswerToEnd(draft.core.world, ended));
}

}  // namespace rt
