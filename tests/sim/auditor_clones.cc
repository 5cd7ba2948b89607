// The auditor's part about population based training: who is compared, who takes a checkpoint of
// whom, and which configuration follows. From the words of the paper and of Ray's page.
#include <algorithm>
#include <cmath>

#include "tests/sim/auditor.h"

namespace rt::sim {

// The newest multiple of the interval by then.
double Auditor::IntervalAt(const AuditedSpec& spec, double iteration) const {
  double begun = 0;
  while (begun + spec.interval <= iteration) begun += spec.interval;
  return begun;
}

void Auditor::NoteCompared(const event::RungRecorded& e, const AuditedSpec& spec,
                           TrialBook& trial) {
  Must(!e.stopped && IntervalAt(spec, e.milestone) == e.milestone && e.milestone > 0,
       "trials are compared at multiples of the interval");
  Must(trial.rungs.empty() || e.milestone > trial.rungs.rbegin()->first,
       "a trial is compared once in an interval");
  trial.rungs[e.milestone] = e.value;
  trial.batch_rungs.emplace_back(e.milestone, e.value);
  ++rungs_checked_;
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
  Must(owner.live && !owner.replaced && touched_.contains({id, clone.number}) &&
           !trial.batch_rungs.empty(),
       "a trial is cloned where it was compared");
  CheckQuantiles(experiment, clone);
  CheckMutated(parent.params, clone.params);
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
  owner.suspending = owner.replaced = true;
}

}  // namespace rt::sim
