// The auditor's part about drivers that are asked for advice.
#include "tests/sim/auditor.h"

namespace rt::sim {

void Auditor::On(const event::DriverAttached& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  Must(experiment.spec.asks_driver, "only an experiment that asks has a driver");
  Must(e.session == experiment.session + 1, "sessions count up");
  experiment.session = e.session;
}

void Auditor::On(const event::DriverAnswered& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  Must(e.session == experiment.session, "only the newest driver is heard");
  Must(e.observed_through > experiment.answered, "a record is answered once");
  Must(e.observed_through < record_->seq, "a driver has read only what was there");
  experiment.answered = e.observed_through;
  for (TrialBook& trial : experiment.trials) {
    auto& known = trial.runs.known_rows;
    while (!known.empty() && known.begin()->first <= e.observed_through) {
      trial.runs.decided_seq = known.begin()->second;
      known.erase(known.begin());
    }
  }
}

void Auditor::On(const event::SearchFinished& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  Must(experiment.spec.searches && !experiment.search_finished, "a search finishes once");
  Must(truth_->finished_searches.contains(e.experiment), "its driver said so");
  experiment.search_finished = true;
}

// A trial goes on after a row only once its driver has judged it, so no row overtakes a verdict.
void Auditor::CheckDecided(const event::ReportsAccepted& e, const RowBatch& batch) {
  if (!e.attempt.owner.is_trial() || e.rank != 0) return;
  if (!ExperimentOf(e.attempt.owner.trial().experiment).spec.schedules) return;
  OwnerBook& owner = OwnerOf(e.attempt.owner);
  Must(batch.rows.size() == 1 && batch.rows.front().seq == owner.decided_seq + 1,
       "a trial continues only after its driver has decided about its newest row");
  owner.known_rows[record_->seq] = batch.rows.front().seq;
}

}  // namespace rt::sim
