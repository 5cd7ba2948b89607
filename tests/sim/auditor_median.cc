// The auditor's part about the median stopping rule, from the words of Ray's page: every row is
// kept here, and no point is left out.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/sim/auditor.h"

namespace rt::sim {

// The trial, whose kept rows include this one, has reported `value` at `time`.
void Auditor::FollowMedian(const ExperimentBook& experiment, TrialBook& trial, double time,
                           double value) {
  const AuditedSpec& spec = experiment.spec;
  if (time < spec.median_from) return;
  // A trial that was restarted repeats what came after its checkpoint.
  trial.curve.erase(trial.curve.lower_bound(time), trial.curve.end());
  trial.curve[time] = value;
  if (trial.reached_end || trial.must_stop) return;
  const double sign = spec.maximise ? 1 : -1;  // More is better from here on.
  double best = -INFINITY;
  for (const KeptRow& row : trial.kept)
    if (row.loss && !std::isnan(*row.loss)) best = std::max(best, sign * *row.loss);
  std::vector<double> means;
  for (const TrialBook& other : experiment.trials) {
    if (&other == &trial || other.curve.empty() || other.curve.rbegin()->first < time) continue;
    double sum = 0, count = 0;
    for (const auto& [at, one] : other.curve) {
      if (at > time || std::isnan(one)) continue;
      sum += sign * one;
      ++count;
    }
    if (count > 0) means.push_back(sum / count);
  }
  if (means.empty() || best == -INFINITY) return;
  std::sort(means.begin(), means.end());
  const size_t half = means.size() / 2;
  const double median = means.size() % 2 == 1 ? means[half] : (means[half - 1] + means[half]) / 2;
  const double blur = 1e-9 * std::max(1.0, std::abs(median));
  trial.must_stop |= best < median - blur;
  trial.may_stop |= best < median + blur;
}

// The newest three losses of this attempt, of the rows that were kept; a grace of four rows.
bool Auditor::IsOnPlateau(const AuditedSpec& spec, const TrialBook& trial,
                          const AttemptId& attempt) {
  std::vector<double> losses;
  for (const KeptRow& row : trial.kept)
    if (row.run == OrderOf(attempt) && row.loss) losses.push_back(*row.loss);
  if (losses.size() < 4) return false;
  losses.erase(losses.begin(), losses.end() - 3);
  const double mean = (losses[0] + losses[1] + losses[2]) / 3;
  double squares = 0;
  for (double loss : losses) squares += (loss - mean) * (loss - mean);
  return squares <= 3 * spec.plateau_std * spec.plateau_std;
}

// The best three losses of the search agree after two results in a row. A step that a trial repeats
// after a restart is no result.
void Auditor::FollowBest(ExperimentBook& experiment, TrialBook& trial, const Row& row,
                         double loss) {
  const AuditedSpec& spec = experiment.spec;
  if (spec.best_std < 0 || experiment.search_over || row.iteration <= trial.best_counted_to) return;
  std::vector<double>& best = experiment.best_losses;
  if (!std::isnan(loss)) best.push_back(spec.maximise ? -loss : loss);
  std::sort(best.begin(), best.end());
  if (best.size() > 3) best.resize(3);
  double mean = 0, squares = 0;
  for (double each : best) mean += each / 3;
  for (double each : best) squares += (each - mean) * (each - mean);
  const bool agree = best.size() == 3 && squares <= 3 * spec.best_std * spec.best_std;
  experiment.best_agreed = agree ? experiment.best_agreed + 1 : 0;
  if (experiment.best_agreed < 2) return;
  experiment.best_ended = trial.reached_end = true;
}

void Auditor::CheckPlateau(const ExperimentBook& experiment) const {
  Must(!experiment.best_ended || experiment.stop_requested,
       "a search whose best results agree ends");
}

}  // namespace rt::sim
