// The auditor's part about population based training: who is compared, who takes a checkpoint of
// whom, and which configuration follows. From the words of the paper and of Ray's page.
#include <algorithm>
#include <cmath>

#include "tests/sim/auditor.h"

namespace rt::sim {

void AuditedSpec::ReadPopulation(const Json& pbt) {
  interval = pbt.GetDouble("perturbation_interval");
  synch = pbt.GetBool("synch");
}

// The newest multiple of the interval by then.
double Auditor::IntervalAt(const AuditedSpec& spec, double iteration) const {
  double begun = 0;
  while (begun + spec.interval <= iteration) begun += spec.interval;
  return begun;
}

void Auditor::NoteCompared(const event::RungRecorded& e, const ExperimentBook& experiment,
                           TrialBook& trial) {
  const AuditedSpec& spec = experiment.spec;
  Must(!e.stopped && IntervalAt(spec, e.milestone) == e.milestone && e.milestone > 0,
       "trials are compared at multiples of the interval");
  Must(trial.rungs.empty() || e.milestone > trial.rungs.rbegin()->first,
       "a trial is compared once in an interval");
  trial.rungs[e.milestone] = e.value;
  trial.question.reset();
  trial.batch_rungs.emplace_back(e.milestone, e.value);
  ++rungs_checked_;
  const auto& all = trial.runs.checkpoints;
  const bool may_save =
      e.with_checkpoint || experiment.unsaved_pauses == 0 || trial.runs.paused ||
      std::any_of(all.begin(), all.end(), [](const CheckpointBook& c) { return !c.retired; });
  trial.must_pause = may_save && (spec.synch || IsAnyQueued(experiment));
}

// Other trials want the nodes of one that runs: they wait for some, or will be created.
bool Auditor::IsAnyQueued(const ExperimentBook& experiment) {
  const bool is_all =
      experiment.search_over || experiment.trials.size() == experiment.spec.trials_total;
  if (!is_all || experiment.paused) return !is_all;
  return std::any_of(experiment.trials.begin(), experiment.trials.end(),
                     [](const TrialBook& trial) { return Waits(trial.runs); });
}

void Auditor::CheckTurn(TrialId id) {
  TrialBook& trial = TrialOf(id);
  const ExperimentBook& experiment = ExperimentOf(id.experiment);
  const bool is_any_held =
      std::any_of(experiment.trials.begin(), experiment.trials.end(),
                  [](const TrialBook& other) { return other.held && !other.runs.over; });
  Must(touched_.contains(id) && !trial.batch_rungs.empty(),
       "a trial of a population is paused where it was compared");
  Must(experiment.spec.synch || IsAnyQueued(experiment) || is_any_held,
       "a trial of a population is paused for another one");
  trial.held = true;
}

// Who continues: all trials together, or the least advanced one when nobody else waits for nodes.
void Auditor::CheckTurns(const event::Answered& e) {
  const ExperimentBook& experiment = ExperimentOf(e.experiment);
  const std::set<uint32_t> resumed(e.resumed.begin(), e.resumed.end());
  const auto newest = [](const TrialBook& trial) {
    return trial.rungs.empty() ? 0 : trial.rungs.rbegin()->first;
  };
  for (uint32_t number : resumed) {
    const TrialBook& trial = experiment.trials.at(number);
    Must(trial.held && trial.runs.paused && !trial.runs.live,
         "only a trial that was paused for others gets its next turn");
    for (uint32_t other = 0; other < experiment.trials.size(); ++other) {
      const TrialBook& another = experiment.trials[other];
      if (another.runs.over || another.runs.stop_requested) continue;
      Must(!experiment.spec.synch || resumed.contains(other),
           "trials that are compared together continue together");
      Must(resumed.contains(other) || !another.held || another.runs.live ||
               newest(another) >= newest(trial),
           "the least advanced trial has the next turn");
    }
  }
  Must(resumed.empty() || !IsAnyQueued(experiment), "who waits for nodes has them first");
  Must(resumed.size() <= 1 || experiment.spec.synch, "one trial at a time has the next turn");
}

// Each row that is the first of a new interval was compared, with its own value.
void Auditor::CheckCompared(const AuditedSpec& spec, const TrialBook& trial) const {
  double newest = trial.before.empty() ? 0 : *trial.before.rbegin();
  size_t next = 0;
  for (const Row& row : trial.batch_rows) {
    const auto json = Json::Parse(row.metrics);
    const Json* loss = json.ok() ? json->Find("loss") : nullptr;
    const bool meets_rule = spec.stop_at > 0 && row.iteration >= spec.stop_at;
    if (loss == nullptr || meets_rule || IntervalAt(spec, row.iteration) <= newest) continue;
    newest = IntervalAt(spec, row.iteration);
    Must(next < trial.batch_rungs.size() && trial.batch_rungs[next].first == newest,
         "the first row of an interval is compared");
    ++next;
  }
  Must(next == trial.batch_rungs.size(), "only the first row of an interval is compared");
}

void Auditor::CheckQuantiles(const ExperimentBook& experiment, const ClonedTrial& clone) const {
  std::vector<std::pair<double, uint32_t>> scores;  // The worst first.
  for (uint32_t number = 0; number < experiment.trials.size(); ++number) {
    const TrialBook& trial = experiment.trials[number];
    if (trial.runs.over || trial.runs.stop_requested || trial.rungs.empty()) continue;
    const double score = trial.rungs.rbegin()->second;
    if (!std::isnan(score)) scores.emplace_back(experiment.spec.maximise ? score : -score, number);
  }
  std::sort(scores.begin(), scores.end());
  const size_t size = std::min((scores.size() + 3) / 4, scores.size() / 2);
  auto is_in = [&](size_t from, uint32_t number) {
    for (size_t i = from; i < from + size; ++i)
      if (scores[i].second == number) return true;
    return false;
  };
  Must(is_in(0, clone.number), "only a trial of the lowest quantile is replaced");
  Must(is_in(scores.size() - size, clone.from), "its parent is in the highest quantile");
}

void Auditor::CheckMutated(const std::string& parent, const std::string& params) const {
  const auto before = Json::Parse(parent), after = Json::Parse(params);
  Must(before.ok() && after.ok() && after->object().size() == before->object().size(),
       "a clone has the parameters of its parent");
  const double old = before->GetDouble("lr"), now = after->GetDouble("lr");
  Must(now >= 0 && now <= 1, "a mutated value is in its domain");
  Must(now != old || old == 0 || old == 1, "a clone's configuration is mutated");
}

void Auditor::Clone(ExperimentId id, const ClonedTrial& clone) {
  ExperimentBook& experiment = ExperimentOf(id);
  TrialBook& trial = TrialOf({id, clone.number});
  TrialBook& parent = TrialOf({id, clone.from});
  OwnerBook& owner = trial.runs;
  // A frozen one as well, by rows from before.
  const bool is_compared = (owner.live || owner.frozen) && touched_.contains({id, clone.number}) &&
                           !trial.batch_rungs.empty();
  // Those that are compared together have just been resumed.
  if (experiment.spec.explores) {
    Must(truth_->explored.contains({TrialId{id, clone.number}, clone.params}),
         "the configuration of a clone is what the lane proposed for this trial");
    Must(trial.exploited < trial.rungs.size() && !trial.runs.over && !trial.runs.stop_requested,
         "a trial is cloned once where it was compared");
    Must(!parent.runs.over && !parent.runs.stop_requested && clone.number != clone.from,
         "a clone's parent is another trial that is not over");
  } else if (experiment.spec.driver_explores) {
    Must(!owner.replaced && trial.question.has_value(),
         "a trial is cloned once where it was asked");
  } else {
    Must(!owner.replaced && (experiment.spec.synch ? !owner.live : is_compared),
         "a trial is cloned where it was compared");
    CheckQuantiles(experiment, clone);
    CheckMutated(parent.params, clone.params);
  }
  trial.exploited = trial.rungs.size();
  trial.best_counted_to = 0;
  DropQuestions(experiment, clone.number);
  const CheckpointBook* stored = nullptr;
  for (const CheckpointBook& book : parent.runs.checkpoints)
    if (!book.retired && book.replicas.empty()) stored = &book;
  Must(stored != nullptr && stored->id == clone.checkpoint,
       "a clone takes its parent's newest checkpoint in the store");
  Must(truth_->manifests.contains(stored->manifest), "the bytes of that checkpoint are there");
  CheckpointBook own = *stored;
  own.id = owner.next_checkpoint++;
  own.run = {owner.number, owner.generation};
  const AttemptId attempt{Owner::Of(TrialId{id, clone.number}), owner.number, owner.generation};
  own.seq = Accepted({attempt, 0});
  owner.checkpoints.push_back(own);
  trial.params = clone.params;
  trial.kept.clear();  // Its best value is that of the rows to come.
  if (owner.live || owner.frozen) owner.suspending = owner.replaced = true;
}

}  // namespace rt::sim
