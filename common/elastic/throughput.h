// How long a step of data-parallel training takes: a model with seven parameters, fitted to the
// measured shapes, and corrected near what was measured. Sources: Qiao et al., "Pollux: Co-adaptive
// Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021, section 3 (the model and its
// loss). The correction by residuals and the rules for sizes beyond the measured ones are ours;
// docs/adr/0035. Pure; equal to the bit for equal points.
#pragma once

#include <cstdint>
#include <vector>

#include "common/elastic/profile.h"

namespace rt {

// Seconds of a micro-batch of b samples on each of r ranks on n nodes:
//   gradient(b) = gradient_fixed + gradient_each * b
//   sync(n, r)  = fixed + each * (r - 2), of a network for n > 1, within a node for n = 1; 0 for r
//   = 1 step        = (gradient^overlap + sync^overlap)^(1/overlap)
// overlap is 1 where synchronisation follows the gradients, and 10 where it hides behind them.
struct StepParameters {
  double gradient_fixed = 0, gradient_each = 0;
  double network_fixed = 0, network_each = 0;
  double local_fixed = 0, local_each = 0;
  double overlap = 1;

  double Gradient(double batch) const { return gradient_fixed + gradient_each * batch; }
  double Sync(uint32_t nodes, uint32_t ranks) const;
  double Step(uint32_t nodes, uint32_t ranks, double batch) const;
};

// One shape as the fit sees it; `weight` is between 0 and 1.
struct StepObservation {
  uint32_t nodes = 0, ranks = 0, batch = 0;
  double gradient_s = 0, step_s = 0;
  double weight = 1;
};
// The shapes of the points, once each: accumulation does not change how long a micro-batch takes.
// A shape that was measured badly (few steps that vary much) weighs less.
std::vector<StepObservation> ObservationsOf(const std::vector<StepPoint>& points);

// What the fit minimises, by (log of the six times, overlap); writes the gradient. For tests.
double StepLoss(const std::vector<StepObservation>& observations, const std::vector<double>& x,
                std::vector<double>& gradient);
// `observations` is not empty.
StepParameters FitSteps(const std::vector<StepObservation>& observations);

// The fitted model, with what it lacks near the measured shapes.
class StepTimes {
 public:
  explicit StepTimes(const std::vector<StepPoint>& points);

  struct Times {
    double gradient_s = 0;
    double step_s = 0;
  };
  // Of several local batches of one size of the gang.
  std::vector<Times> Of(uint32_t nodes, uint32_t ranks, const std::vector<double>& batches) const;
  const StepParameters& parameters() const { return parameters_; }

 private:
  struct Residual {
    double log_ranks = 0, log_batch = 0;
    bool is_distributed = false;    // On several nodes.
    double gradient = 0, step = 0;  // log(observed / fitted).
  };
  StepParameters parameters_;
  std::vector<Residual> residuals_;
};

}  // namespace rt
