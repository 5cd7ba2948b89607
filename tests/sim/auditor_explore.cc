// The auditor's part about clones whose configurations a driver changes: what it is asked, and what
// becomes of its answer.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {
namespace {

bool IsEnding(const auto& runs) { return runs.over || runs.stop_requested; }

bool HasStored(const auto& runs) {
  return std::any_of(runs.checkpoints.begin(), runs.checkpoints.end(),
                     [](const auto& book) { return !book.retired && book.replicas.empty(); });
}

}  // namespace

// The scheduler of the head clones nothing by itself, and its population waits for the answers.
void Auditor::CheckAsked(const event::Answered& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  const AuditedSpec& spec = experiment.spec;
  Must(spec.driver_explores ? e.cloned.empty() : e.asked.empty(),
       "a clone is made by the driver's answer where the driver explores, and only there");
  const bool waits =
      std::any_of(experiment.trials.begin(), experiment.trials.end(),
                  [](const TrialBook& trial) { return trial.question && !IsEnding(trial.runs); });
  Must(!spec.synch || e.resumed.empty() || (!waits && e.asked.empty()),
       "trials that are compared together continue once the driver has answered");
  for (const AskedClone& asked : e.asked) {
    TrialBook& trial = TrialOf({e.experiment, asked.number});
    const TrialBook& parent = experiment.trials.at(asked.from);
    const bool is_there = trial.runs.live || trial.runs.frozen;
    const bool is_compared =
        is_there && touched_.contains({e.experiment, asked.number}) && !trial.batch_rungs.empty();
    Must(!IsEnding(trial.runs) && !trial.runs.replaced &&
             (spec.synch ? !trial.runs.live : is_compared),
         "a driver is asked about a trial that was compared");
    Must(HasStored(parent.runs), "a clone's parent has a checkpoint in the store");
    const ClonedTrial clone{asked.number, asked.from, 0, asked.params};
    CheckQuantiles(experiment, clone);
    CheckMutated(parent.params, asked.params);
    trial.question = {record_->seq, asked.from, asked.params};
  }
}

// Of the driver's answer, before its clones are made.
void Auditor::CheckExplored(const event::Answered& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  std::set<uint32_t> cloned, fallbacks;
  for (const FallbackTrial& one : e.fallbacks) fallbacks.insert(one.number);
  for (const ClonedTrial& clone : e.cloned) {
    const TrialBook& trial = TrialOf({e.experiment, clone.number});
    Must(cloned.insert(clone.number).second && trial.question && !IsEnding(trial.runs),
         "a driver's clone is one about which it was asked");
    Must(trial.question->seq <= e.observed_through && trial.question->from == clone.from,
         "a driver has read the question that it answers");
    const bool is_native = fallbacks.contains(clone.number);
    Must(is_native ? clone.params == trial.question->params
                   : truth_->explored.contains({TrialId{e.experiment, clone.number}, clone.params}),
         "a clone has the configuration that its driver made, or that of the head");
  }
  Must(std::all_of(fallbacks.begin(), fallbacks.end(),
                   [&](uint32_t number) { return cloned.contains(number); }),
       "a driver leaves out only the configurations of clones");
  for (uint32_t number = 0; number < experiment.trials.size(); ++number) {
    const TrialBook& trial = experiment.trials[number];
    const bool is_answered = trial.question && trial.question->seq <= e.observed_through;
    if (!is_answered || IsEnding(trial.runs) || cloned.contains(number)) continue;
    const bool is_stopped =
        std::any_of(e.stopped.begin(), e.stopped.end(),
                    [&](const StoppedTrial& one) { return one.number == number; });
    const OwnerBook& parent = experiment.trials.at(trial.question->from).runs;
    Must(is_stopped || IsEnding(parent) || !HasStored(parent) ||
             cloned.contains(trial.question->from),
         "what the driver was asked about is cloned when it answers");
  }
}

void Auditor::CloseQuestions(ExperimentBook& experiment, uint64_t through) {
  for (TrialBook& trial : experiment.trials)
    if (trial.question && trial.question->seq <= through) trial.question.reset();
}

// Its configuration was made of one that the parent no longer has.
void Auditor::DropQuestions(ExperimentBook& experiment, uint32_t cloned) {
  experiment.trials.at(cloned).question.reset();
  for (TrialBook& other : experiment.trials)
    if (other.question && other.question->from == cloned) other.question.reset();
}

}  // namespace rt::sim
