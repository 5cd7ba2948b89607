#include "head/core/driver_hooks.h"

#include <algorithm>
#include <set>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/journalled_spec.h"
#include "head/core/answers.h"

namespace rt {
namespace {

constexpr size_t kTrialNameMax = 200;  // It becomes a file's name: 255 bytes with what is added.

absl::StatusOr<const Experiment*> FindAsking(const Draft& draft, ExperimentId id) {
  const auto& all = draft.core.world.state.experiments;
  auto found = all.find(id);
  if (found == all.end()) return NotFound("there is no experiment " + std::to_string(id.value));
  if (!draft.core.world.index.experiments.at(id).spec.driver.IsAsked())
    return Invalid("experiment " + std::to_string(id.value) + " asks its driver nothing");
  return &found->second;
}

absl::Status CheckSession(const Experiment& experiment, uint64_t session) {
  if (session != 0 && session == experiment.drivers.size()) return absl::OkStatus();
  return WithHint(absl::FailedPreconditionError("another driver answers experiment " +
                                                std::to_string(experiment.id.value) + " now"),
                  "only the newest driver is heard; end this one");
}

absl::Status CheckParams(const std::string& params) {
  if (params.size() > limits::kParamsBytesMax) {
    return Invalid("a suggested configuration is longer than " +
                   std::to_string(limits::kParamsBytesMax) + " bytes");
  }
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(params));
  return json.is_object() ? absl::OkStatus() : Invalid("a suggested configuration must be a map");
}

absl::Status CheckResources(const Core& core, const std::string& text) {
  if (text.empty()) return absl::OkStatus();
  if (text.size() > limits::kParamsBytesMax) return Invalid("a trial's resources are too long");
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(text));
  RT_ASSIGN_OR_RETURN(ResourceRequest request, ParseResourceRequest(json, "resources"));
  return CheckPossible(core, request);
}

// Whether a node can hold them is seen when the trial has saved: until then it keeps what it has.
absl::Status CheckAllocated(const std::string& text) {
  if (text.size() > limits::kParamsBytesMax) return Invalid("a trial's resources are too long");
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(text));
  RT_ASSIGN_OR_RETURN(ResourceRequest request, ParseResourceRequest(json, "resources"));
  if (request.is_elastic())
    return Invalid("resources: a trial is given a number of ranks, not bounds of it");
  return absl::OkStatus();
}

absl::Status CheckAnswer(const Draft& draft, const Experiment& experiment,
                         const input::AnswerQuestions& input) {
  if (input.through < input.from)
    return Invalid("a driver cannot have read up to " + std::to_string(input.through));
  if (input.through > draft.core.world.state.seq)
    return absl::UnavailableError("the driver has read record " + std::to_string(input.through) +
                                  ", which this head does not have: another has taken over");
  for (const auto& suggestion : input.suggestions) {
    RT_RETURN_IF_ERROR(CheckParams(suggestion.params));
    if (std::max(suggestion.name.size(), suggestion.directory.size()) > kTrialNameMax)
      return Invalid("a trial's name is longer than " + std::to_string(kTrialNameMax) + " bytes");
    RT_RETURN_IF_ERROR(CheckResources(draft.core, suggestion.resources));
  }
  for (const auto& one : input.explored)
    if (one.failure.empty()) RT_RETURN_IF_ERROR(CheckParams(one.params));
  for (const auto& one : input.allocated)
    if (absl::Status status = CheckAllocated(one.resources); !status.ok())
      return Annotate(status, "trial " + std::to_string(one.number));
  std::vector<uint32_t> named = input.pauses;
  named.insert(named.end(), input.resumes.begin(), input.resumes.end());
  for (const auto& stop : input.stops) named.push_back(stop.number);
  for (const auto& one : input.explored) named.push_back(one.number);
  for (const auto& one : input.allocated) named.push_back(one.number);
  for (uint32_t number : named)
    if (number >= experiment.trials.size()) return NotFound("no such trial");
  return absl::OkStatus();
}

// Notifies the workers of trials whose rows an answer up to `through` decides.
void WakeDecided(Draft& draft, const Experiment& experiment, uint64_t through) {
  for (uint32_t number : draft.index().experiments.at(experiment.id).live) {
    const Attempt& live = *experiment.trials.at(number).runs.live();
    if (live.undecided.empty() || live.undecided.front().event_seq > through) continue;
    for (const Member& member : live.members) draft.soft().dirty.insert(member.node);
  }
}

// The trials that the driver stops, pauses and resumes, as far as they are not over. One that it
// stops is neither paused nor resumed.
void TakeDecisions(const Experiment& experiment, const input::AnswerQuestions& input,
                   event::Answered& answer) {
  std::set<uint32_t> stopped, paused;
  for (const auto& stop : input.stops) {
    if (!IsOpen(experiment.trials.at(stop.number)) || !stopped.insert(stop.number).second) continue;
    const StopCause cause = stop.early ? StopCause::kEarly : StopCause::kRule;
    answer.stopped.push_back({stop.number, cause, stop.reason});
  }
  auto may_change = [&](uint32_t number) {
    return IsOpen(experiment.trials.at(number)) && !stopped.contains(number);
  };
  for (uint32_t number : input.pauses) {
    const bool runs = experiment.trials.at(number).pause_cause == PauseCause::kNone;
    if (may_change(number) && runs && paused.insert(number).second)
      answer.paused.push_back({number, "by its scheduler"});
  }
  std::set<uint32_t> resumed;
  for (uint32_t number : input.resumes) {
    const bool waits = experiment.trials.at(number).pause_cause == PauseCause::kScheduler;
    if (may_change(number) && (waits || paused.contains(number)) && resumed.insert(number).second)
      answer.resumed.push_back(number);
  }
}

constexpr char kNoExploreAnswer[] = "the driver said nothing of the configuration";

// Those about which the driver, which has read as far as it says, was asked.
std::vector<const Trial*> ExploredBy(const Experiment& experiment, uint64_t through) {
  std::vector<const Trial*> asked;
  for (const Trial& trial : experiment.trials)
    if (HasOpenClone(trial) && trial.open_clone.seq <= through) asked.push_back(&trial);
  return asked;
}

// The clones whose configurations the driver has made, or left as they were. A trial that is to be
// stopped, or whose parent has ended or is another trial's clone now, stays as it is.
void TakeExplored(const World& world, const input::AnswerQuestions& input,
                  event::Answered& answer) {
  const Experiment& experiment = world.state.experiments.at(input.experiment);
  const ExperimentIndex& index = world.index.experiments.at(input.experiment);
  if (!index.spec.driver.explores) return;
  const std::vector<const Trial*> asked = ExploredBy(experiment, input.through);
  for (const Trial* trial : asked) {
    const OpenClone& open = trial->open_clone;
    const Trial& parent = experiment.trials.at(open.from);
    const uint64_t checkpoint = NewestStored(parent.runs);
    const auto is_of = [](uint32_t number) {
      return [number](const auto& one) { return one.number == number; };
    };
    const bool is_stopped =
        std::any_of(answer.stopped.begin(), answer.stopped.end(), is_of(trial->id.number));
    const bool is_parent_cloned =
        std::any_of(answer.cloned.begin(), answer.cloned.end(), is_of(open.from));
    if (is_stopped || is_parent_cloned || !IsOpen(parent) || checkpoint == 0) continue;
    const auto said =
        std::find_if(input.explored.rbegin(), input.explored.rend(), is_of(trial->id.number));
    const bool is_said = said != input.explored.rend() && said->failure.empty();
    answer.cloned.push_back(
        {trial->id.number, open.from, checkpoint, is_said ? said->params : open.params});
    if (is_said) continue;
    answer.fallbacks.push_back(
        {trial->id.number, said == input.explored.rend() ? kNoExploreAnswer : said->failure});
  }
  // Trials that are compared together continue together.
  if (asked.empty() || !index.chosen.scheduler->compares_population(index.spec)) return;
  for (const Trial& trial : experiment.trials)
    if (HasOpenClone(trial) && trial.open_clone.seq > input.through) return;
  for (uint32_t number : index.paused)
    if (const Trial& trial = experiment.trials[number];
        trial.pause_cause == PauseCause::kScheduler && IsOpen(trial) && !trial.runs.running())
      answer.resumed.push_back(number);
}

// The resources that trials get once they have saved. Of one trial the last ones count; those that
// it has, or is to get already, are no news.
void TakeAllocated(const World& world, const input::AnswerQuestions& input,
                   event::Answered& answer) {
  const ExperimentId id = input.experiment;
  if (!world.index.experiments.at(id).spec.driver.allocates) return;
  std::set<uint32_t> taken;
  for (auto given = input.allocated.rbegin(); given != input.allocated.rend(); ++given) {
    const Trial& trial = world.state.experiments.at(id).trials.at(given->number);
    if (!IsOpen(trial) || !taken.insert(given->number).second) continue;
    ResourceRequest request = ReadJournalledResources({.text = given->resources}).spec;
    AllocatedTrial allocated{.number = given->number};
    if (request != RequestOf(world, Owner::Of(trial.id))) {
      allocated.resources = given->resources;
      allocated.normal_resources = NormalText(request);
      allocated.spec_format = kSpecFormat;
    }
    if (allocated.normal_resources != trial.allocation.normal_resources)
      answer.allocated.push_back(std::move(allocated));
  }
}

// Trials that were suggested already and wait for capacity.
size_t WaitingTrials(const World& world, ExperimentId id) {
  const std::set<uint32_t>& pending = world.index.experiments.at(id).pending;
  return static_cast<size_t>(std::count_if(pending.begin(), pending.end(), [&](uint32_t number) {
    return world.index.ready_order.contains(Owner::Of(TrialId{id, number}));
  }));
}

// The name as a file may be called, with the trial's number behind it when another has it.
std::string FreeName(const World& world, const event::Answered& answer, uint32_t number,
                     const std::string& wanted) {
  if (wanted.empty()) return "";
  std::string name = wanted;
  for (char& c : name)
    if (c == '/' || static_cast<unsigned char>(c) < ' ') c = '_';
  if (name == "." || name == "..") name += '_';
  bool is_taken = world.index.experiments.at(answer.experiment).names.contains(name);
  for (const CreatedTrial& other : answer.created)
    is_taken = is_taken || other.name == name || other.directory == name;
  return is_taken ? name + "_" + std::to_string(number) : name;
}

// The trials that the driver suggests, as far as they are wanted: others are taken, or not wanted
// now.
void TakeSuggestions(const World& world, const input::AnswerQuestions& input,
                     event::Answered& answer) {
  const ExperimentId id = input.experiment;
  const std::vector<uint32_t> asked = AskedNumbers(world, id);
  size_t next = 0;
  for (const auto& suggestion : input.suggestions) {
    if (next == asked.size() || asked[next] != suggestion.number) continue;
    CreatedTrial trial = NewTrial(world, id, asked[next++], suggestion.params);
    trial.name = FreeName(world, answer, trial.number, suggestion.name);
    trial.directory = FreeName(world, answer, trial.number, suggestion.directory);
    trial.resources = suggestion.resources;
    if (!trial.resources.empty()) {
      trial.normal_resources =
          NormalText(ReadJournalledResources({.text = trial.resources}).spec);
      trial.spec_format = kSpecFormat;
    }
    if (world.index.experiments.at(id).spec.driver.selects_next)
      answer.paused.push_back({trial.number, "until its scheduler selects it"});
    answer.created.push_back(std::move(trial));
  }
}

}  // namespace

absl::Status OnAttachDriver(Draft& draft, const input::AttachDriver& input) {
  RT_ASSIGN_OR_RETURN(const Experiment* experiment, FindAsking(draft, input.experiment));
  if (input.driver.empty()) return Invalid("a driver needs a name");
  const auto& drivers = experiment->drivers;
  const auto known = std::find(drivers.begin(), drivers.end(), input.driver);
  if (known == drivers.end()) {
    draft.Emit(event::DriverAttached{input.experiment, drivers.size() + 1, input.driver});
  } else {  // The reply was lost; a request that comes later than its successor is not heard.
    const auto session = static_cast<uint64_t>(known - drivers.begin()) + 1;
    RT_RETURN_IF_ERROR(CheckSession(*experiment, session));
  }
  draft.soft().drivers[input.experiment] = draft.now;
  draft.out.answer.session = drivers.size();
  draft.out.answer.answered_seq = experiment->answered_seq;
  return absl::OkStatus();
}

absl::Status OnDriverListens(Draft& draft, const input::DriverListens& input) {
  RT_ASSIGN_OR_RETURN(const Experiment* experiment, FindAsking(draft, input.experiment));
  RT_RETURN_IF_ERROR(CheckSession(*experiment, input.session));
  draft.soft().drivers[input.experiment] = draft.now;
  if (input.function.empty()) draft.soft().driver_calls.erase(input.experiment);
  else
    draft.soft().driver_calls[input.experiment] = {
        input.function, draft.now - std::max<Millis>(0, input.called_for), draft.now};
  return absl::OkStatus();
}

absl::Status OnAnswerQuestions(Draft& draft, const input::AnswerQuestions& input) {
  const ExperimentId id = input.experiment;
  RT_ASSIGN_OR_RETURN(const Experiment* experiment, FindAsking(draft, id));
  RT_RETURN_IF_ERROR(CheckSession(*experiment, input.session));
  RT_RETURN_IF_ERROR(CheckAnswer(draft, *experiment, input));
  draft.soft().drivers[id] = draft.now;
  draft.soft().driver_calls.erase(id);
  if (input.from != experiment->answered_seq) {
    // The reply to the first copy was lost; its decisions were taken with it.
    if (input.through == experiment->answered_seq) return absl::OkStatus();
    return absl::FailedPreconditionError("this was answered up to record " +
                                         std::to_string(experiment->answered_seq) + " already");
  }
  if (input.through > experiment->answered_seq) WakeDecided(draft, *experiment, input.through);
  event::Answered answer{.experiment = id,
                         .algorithm = kDriverAlgorithm,
                         .observed_through = input.through,
                         .session = input.session};
  TakeDecisions(*experiment, input, answer);
  TakeSuggestions(draft.core.world, input, answer);
  TakeExplored(draft.core.world, input, answer);
  TakeAllocated(draft.core.world, input, answer);
  answer.finished =
      input.search_finished && !experiment->search_finished && experiment->is_searching();
  EmitAnswer(draft, std::move(answer));
  if (input.stop_all) StopExperiment(draft, id, StopCause::kRule, input.stop_all_reason);
  MaybeFinish(draft, id);
  return absl::OkStatus();
}

bool HasOpenClone(const Trial& trial) { return trial.open_clone.seq != 0 && IsOpen(trial); }

// Whether the driver is away: its last call, at `heard_at`, is too long ago, or its job has ended
// since.
static bool IsAwaySince(const Core& core, ExperimentId id, Millis heard_at, Millis now) {
  const State& state = core.world.state;
  const auto job = state.jobs.find(state.experiments.at(id).job);
  const bool has_ended = job != state.jobs.end() && job->second.end != JobEnd::kNone &&
                         heard_at <= job->second.ended_at;
  return has_ended || now - heard_at > limits::kDriverAwayAfter;
}

bool IsDriverAway(const Core& core, ExperimentId id, Millis now) {
  auto heard = core.soft.drivers.find(id);
  return heard == core.soft.drivers.end() || IsAwaySince(core, id, heard->second, now);
}

const DriverCall* FindDriverCall(const Core& core, ExperimentId id, Millis now) {
  auto found = core.soft.driver_calls.find(id);
  if (found == core.soft.driver_calls.end()) return nullptr;
  return IsAwaySince(core, id, found->second.heard_at, now) ? nullptr : &found->second;
}

std::vector<uint32_t> AskedNumbers(const World& world, ExperimentId id) {
  const Experiment& experiment = world.state.experiments.at(id);
  const ExperimentIndex& index = world.index.experiments.at(id);
  const ExperimentSpec& spec = index.spec;
  std::vector<uint32_t> numbers;
  const bool asks = spec.driver.searches && experiment.is_searching();
  if (!asks || experiment.search_finished) return numbers;
  // A searcher learns from trials that ended: it is not asked ahead of the free capacity.
  const size_t ahead = spec.driver.search.empty() ? limits::kAskedMax : 1;
  const size_t waiting = WaitingTrials(world, id);
  const size_t open = index.pending.size() - index.paused.size() + index.live.size();
  size_t count = ahead > waiting ? ahead - waiting : 0;
  if (spec.max_concurrent > 0) {
    const size_t most = static_cast<size_t>(spec.max_concurrent);
    count = std::min(count, most > open ? most - open : 0);
  }
  const uint64_t made = experiment.trials.size();
  const uint64_t total = spec.TrialsTotal().value_or(UINT32_MAX);
  count = std::min<uint64_t>(count, total > made ? total - made : 0);
  for (size_t i = 0; i < count; ++i) numbers.push_back(static_cast<uint32_t>(made + i));
  return numbers;
}

}  // namespace rt
