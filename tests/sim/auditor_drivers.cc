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
  DecideRows(experiment, e.observed_through);
}

void Auditor::DecideRows(ExperimentBook& experiment, uint64_t through) {
  experiment.answered = through;
  for (TrialBook& trial : experiment.trials) {
    auto& known = trial.runs.known_rows;
    while (!known.empty() && known.begin()->first <= through) {
      trial.runs.decided_seq = known.begin()->second;
      known.erase(known.begin());
    }
  }
}

void Auditor::On(const event::Answered& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  const AuditedSpec& spec = experiment.spec;
  Must(e.observed_through < record_->seq, "an algorithm has read only what was there");
  if (e.session != 0) {
    Must(e.session == experiment.session, "only the newest driver is heard");
    Must(e.algorithm == "driver" && spec.asks_driver, "a driver answers only where it is asked");
    Must(e.observed_through >= experiment.answered, "a driver's answers go forward");
    if (e.observed_through > experiment.answered) DecideRows(experiment, e.observed_through);
    CheckExplored(e);
  } else if (spec.has_model() && !e.created.empty()) {
    CheckProposals(e);
  } else {
    const bool is_of_lane = spec.explores && !e.cloned.empty();
    Must(is_of_lane || e.observed_through + 1 == record_->seq,
         "an algorithm of the head has read everything");
    Must(!is_of_lane || e.observed_through >= head_seq_, "a model answers the head that leads now");
    const bool searches = !e.created.empty();
    const char* scheduler = spec.median_from > 0  ? "median_stopping"
                            : spec.explores       ? "pb2"
                            : spec.interval > 0   ? "pbt"
                            : spec.halves         ? "hyperband"
                            : spec.is_progressive ? "pasha"
                            : spec.promotes       ? "asha_promotion"
                                                  : "asha";
    Must(e.algorithm == (searches ? "basic" : scheduler) && e.version == 1, "it is the spec's");
    const bool pauses = spec.promotes || spec.halves || spec.interval > 0;
    const bool holds = pauses && !(e.paused.empty() && e.resumed.empty());
    const bool stops = (spec.asha || spec.median_from > 0) && !e.stopped.empty();
    const bool clones = !e.cloned.empty() || !e.asked.empty();
    Must(searches || holds || stops || clones, "an answer says something");
    Must(!clones || (spec.interval > 0 && !searches && e.stopped.empty()),
         "only population based training clones trials");
    Must(!searches || (e.stopped.empty() && !holds), "a search algorithm stops nothing");
    Must(!e.finished && (holds || e.resumed.empty()),
         "only a driver finishes a search or resumes trials");
    if (spec.promotes) CheckUnpromoted(e);
    if (spec.halves) CheckHalvings(e);
    if (spec.interval > 0) CheckTurns(e);
    CheckAsked(e);
  }
  Must(e.created.empty() || (e.session != 0) == spec.searches, "one of them searches");
  for (const CreatedTrial& c : e.created)
    On(event::TrialCreated{{e.experiment, c.number}, c.params, c.bracket, c.name, c.directory,
                           c.resources, c.normal_resources, c.spec_format});
  for (const StoppedTrial& stopped : e.stopped)
    On(event::TrialStopRequested{{e.experiment, stopped.number}, stopped.cause, stopped.reason});
  for (const SuspendedTrial& paused : e.paused)
    On(event::TrialPaused{{e.experiment, paused.number}, PauseCause::kScheduler, paused.reason});
  for (uint32_t number : e.resumed) {
    if (spec.promotes && e.session == 0) CheckPromotion({e.experiment, number});
    On(event::TrialResumed{{e.experiment, number}});
  }
  for (const ClonedTrial& clone : e.cloned) Clone(e.experiment, clone);
  if (e.session != 0) CloseQuestions(experiment, e.observed_through);
  for (const AllocatedTrial& given : e.allocated) Allocate(e, given);
  if (e.finished) On(event::SearchFinished{e.experiment});
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
