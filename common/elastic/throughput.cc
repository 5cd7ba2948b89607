#include "common/elastic/throughput.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "common/base/check.h"
#include "common/search/minimise.h"

namespace rt {
namespace {

constexpr double kTiny = 1e-8;  // Seconds: no synchronisation, and a time that is not known.
constexpr double kRatioPenalty = 1e-2;  // Of (each / fixed)^2: the per-rank times are the smaller.
constexpr double kOverlapPenalty = 1e-3;
constexpr double kOverlapMax = 10;
constexpr double kModelError = 0.05;  // Relative: a measurement need not be better than that.
// A gang on several nodes that was never seen is that much slower than one within a node.
constexpr double kNetworkGuess = 2.5;
// Widths of the correction: in log ranks and log batch. The prior holds it back where nothing is
// near, and what is farther than kNear has no say.
constexpr double kWidthRanks = 0.1, kWidthBatch = 0.5, kPrior = 0.1, kNear = 0.01;

constexpr int kRoundsMax = 10;
constexpr double kGainMin = 1e-6;

enum Parameter {
  kGradientFixed,
  kGradientEach,
  kNetworkFixed,
  kNetworkEach,
  kLocalFixed,
  kLocalEach,
  kOverlap,
  kParameters
};

double RanksBeyond(uint32_t ranks) { return std::max(ranks - 2.0, kTiny); }

// log((exp(a)^p + exp(b)^p)^(1/p)) without overflow, and how it changes with a and p.
struct Norm {
  double value = 0, by_first = 0, by_power = 0;
};
Norm LogNorm(double a, double b, double power) {
  const double most = std::max(a, b), least = std::min(a, b);
  const double ratio = std::exp(power * (least - most));
  const double share = ratio / (1 + ratio);  // Of the smaller one.
  const double log_sum = std::log1p(ratio);
  return {most + log_sum / power, a >= b ? 1 - share : share,
          -log_sum / (power * power) + share * (least - most) / power};
}

// Squared errors of one kind of times, and their gradient.
struct Errors {
  double sum = 0;
  std::array<double, kParameters> gradient{};

  // Turns the sum into a root mean square of log ratios.
  void Finish(double weights) {
    sum = std::sqrt(sum / weights);
    for (double& part : gradient) part = sum > 1e-12 ? part / (weights * sum) : 0;
  }
};

void AddErrors(const StepObservation& seen, const std::array<double, kParameters>& p,
               Errors& of_gradient, Errors& of_step) {
  const double gradient = p[kGradientFixed] + p[kGradientEach] * seen.batch;
  const bool is_alone = seen.ranks == 1;
  const Parameter fixed = seen.nodes > 1 ? kNetworkFixed : kLocalFixed;
  const Parameter each = seen.nodes > 1 ? kNetworkEach : kLocalEach;
  const double beyond = RanksBeyond(seen.ranks);
  const double sync = is_alone ? kTiny : p[fixed] + p[each] * beyond;
  const double log_gradient = std::log(gradient);
  const Norm step = LogNorm(log_gradient, std::log(sync), p[kOverlap]);
  const double gradient_error = log_gradient - std::log(seen.gradient_s);
  const double step_error = step.value - std::log(seen.step_s);
  of_gradient.sum += seen.weight * gradient_error * gradient_error;
  of_step.sum += seen.weight * step_error * step_error;
  // By the logarithms of the parameters.
  const double fixed_share = p[kGradientFixed] / gradient;
  const double each_share = p[kGradientEach] * seen.batch / gradient;
  of_gradient.gradient[kGradientFixed] += seen.weight * gradient_error * fixed_share;
  of_gradient.gradient[kGradientEach] += seen.weight * gradient_error * each_share;
  const double weighted = seen.weight * step_error;
  of_step.gradient[kGradientFixed] += weighted * step.by_first * fixed_share;
  of_step.gradient[kGradientEach] += weighted * step.by_first * each_share;
  if (!is_alone) {
    of_step.gradient[fixed] += weighted * (1 - step.by_first) * p[fixed] / sync;
    of_step.gradient[each] += weighted * (1 - step.by_first) * p[each] * beyond / sync;
  }
  of_step.gradient[kOverlap] += weighted * step.by_power;
}

// Where the search begins, and what the observations cannot tell, which is fixed.
struct Start {
  std::vector<double> x;
  Box box;

  void Fix(Parameter parameter, double seconds) {
    x[parameter] = box.lower[parameter] = box.upper[parameter] = std::log(seconds);
  }
};

Start StartOf(const std::vector<StepObservation>& observations) {
  std::set<uint32_t> batches, network, local;  // Sizes that were seen.
  double mean = 0, batch = 0;
  for (const StepObservation& seen : observations) {
    batches.insert(seen.batch);
    if (seen.nodes > 1) network.insert(seen.ranks);
    else if (seen.ranks > 1) local.insert(seen.ranks);
    mean += seen.gradient_s / static_cast<double>(observations.size());
    batch += seen.batch / static_cast<double>(observations.size());
  }
  Start start;
  // Pollux's fit begins there, too: with few points the minima are many, and those near it predict
  // best. One batch tells nothing about its samples, which get half of the time.
  start.x = {std::log(0.1), std::log(0.01), std::log(0.1), std::log(0.01),
             std::log(0.1), std::log(0.01), 1.001};
  if (batches.size() == 1) start.x[kGradientEach] = std::log(mean / 2 / batch);
  start.box.lower.assign(kParameters, std::log(kTiny));
  start.box.upper.assign(kParameters, std::log(1e6));
  start.box.lower[kOverlap] = 1;
  start.box.upper[kOverlap] = kOverlapMax;
  if (batches.size() == 1) start.Fix(kGradientFixed, mean / 2);
  if (network.empty()) start.Fix(kNetworkFixed, kTiny);
  if (local.empty()) start.Fix(kLocalFixed, kTiny);
  // One size does not tell what another rank costs.
  if (network.size() < 2) start.Fix(kNetworkEach, kTiny);
  if (local.size() < 2) start.Fix(kLocalEach, kTiny);
  return start;
}

}  // namespace

double StepParameters::Sync(uint32_t nodes, uint32_t ranks) const {
  if (ranks == 1) return kTiny;
  return nodes > 1 ? network_fixed + network_each * RanksBeyond(ranks)
                   : local_fixed + local_each * RanksBeyond(ranks);
}

double StepParameters::Step(uint32_t nodes, uint32_t ranks, double batch) const {
  return std::exp(LogNorm(std::log(Gradient(batch)), std::log(Sync(nodes, ranks)), overlap).value);
}

std::vector<StepObservation> ObservationsOf(const std::vector<StepPoint>& points) {
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::vector<StepPoint>> by_shape;
  for (const StepPoint& point : points) {
    StepPoint one = point;
    one.accumulation = 0;
    one.gpu_type.clear();
    MergePoints(by_shape[{one.nodes, one.ranks, one.local_batch}], {one}, 1);
  }
  std::vector<StepObservation> observations;
  for (const auto& [shape, merged] : by_shape) {
    const StepPoint& point = merged.front();
    const double error = point.step_variance / static_cast<double>(point.count) /
                         (point.step_mean * point.step_mean);
    const double known = kModelError * kModelError;
    observations.push_back({point.nodes, point.ranks, point.local_batch,
                            point.step_mean - point.sync_mean, point.step_mean,
                            known / (known + error)});
  }
  return observations;
}

double StepLoss(const std::vector<StepObservation>& observations, const std::vector<double>& x,
                std::vector<double>& gradient) {
  std::array<double, kParameters> p{};
  for (size_t i = 0; i < kOverlap; ++i) p[i] = std::exp(x[i]);
  p[kOverlap] = x[kOverlap];
  Errors of_gradient, of_step;
  double weights = 0;
  for (const StepObservation& seen : observations) {
    AddErrors(seen, p, of_gradient, of_step);
    weights += seen.weight;
  }
  of_gradient.Finish(weights);
  of_step.Finish(weights);
  const double hidden = p[kOverlap] - 1;
  const double network = p[kNetworkEach] / p[kNetworkFixed];
  const double local = p[kLocalEach] / p[kLocalFixed];
  gradient.assign(kParameters, 0);
  for (size_t i = 0; i < kParameters; ++i)
    gradient[i] = of_gradient.gradient[i] + of_step.gradient[i];
  gradient[kOverlap] += 2 * kOverlapPenalty * hidden;
  gradient[kNetworkEach] += 2 * kRatioPenalty * network * network;
  gradient[kNetworkFixed] -= 2 * kRatioPenalty * network * network;
  gradient[kLocalEach] += 2 * kRatioPenalty * local * local;
  gradient[kLocalFixed] -= 2 * kRatioPenalty * local * local;
  return of_gradient.sum + of_step.sum + kOverlapPenalty * hidden * hidden +
         kRatioPenalty * (network * network + local * local);
}

StepParameters FitSteps(const std::vector<StepObservation>& observations) {
  RT_CHECK(!observations.empty());
  Start start = StartOf(observations);
  const SmoothFunction loss = [&](const std::vector<double>& x, std::vector<double>& gradient) {
    return StepLoss(observations, x, gradient);
  };
  // Near a perfect fit the loss is not smooth, and the search ends early: it is begun again there.
  double before = INFINITY;
  for (int round = 0; round < kRoundsMax; ++round) {
    const double now =
        Minimise(loss, start.box, {.iterations = 100, .gradient_min = 1e-6}, start.x);
    if (before - now < kGainMin) break;
    before = now;
  }
  const std::vector<double>& x = start.x;
  StepParameters fitted{std::exp(x[0]), std::exp(x[1]), std::exp(x[2]), std::exp(x[3]),
                        std::exp(x[4]), std::exp(x[5]), x[kOverlap]};
  const bool is_distributed = std::any_of(observations.begin(), observations.end(),
                                          [](const auto& seen) { return seen.nodes > 1; });
  if (!is_distributed)
    fitted.network_fixed = std::max(fitted.network_fixed,
                                    kNetworkGuess * (fitted.local_fixed + 2 * fitted.local_each));
  return fitted;
}

StepTimes::StepTimes(const std::vector<StepPoint>& points) {
  const std::vector<StepObservation> observations = ObservationsOf(points);
  parameters_ = FitSteps(observations);
  for (const StepObservation& seen : observations)
    residuals_.push_back(
        {std::log(static_cast<double>(seen.ranks)), std::log(static_cast<double>(seen.batch)),
         seen.nodes > 1, std::log(seen.gradient_s / parameters_.Gradient(seen.batch)),
         std::log(seen.step_s / parameters_.Step(seen.nodes, seen.ranks, seen.batch))});
}

std::vector<StepTimes::Times> StepTimes::Of(uint32_t nodes, uint32_t ranks,
                                            const std::vector<double>& batches) const {
  struct Neighbour {
    double weight;
    const Residual* residual;
  };
  std::vector<Neighbour> neighbours;
  for (const Residual& one : residuals_) {
    if (one.is_distributed != (nodes > 1)) continue;
    const double apart = (one.log_ranks - std::log(static_cast<double>(ranks))) / kWidthRanks;
    const double weight = std::exp(-0.5 * apart * apart);
    if (weight >= kNear) neighbours.push_back({weight, &one});
  }
  std::vector<Times> times;
  times.reserve(batches.size());
  for (double batch : batches) {
    double weights = kPrior, gradient = 0, step = 0;
    for (const Neighbour& one : neighbours) {
      const double apart = (one.residual->log_batch - std::log(batch)) / kWidthBatch;
      const double weight = one.weight / (1 + apart * apart * apart * apart);
      weights += weight;
      gradient += weight * one.residual->gradient;
      step += weight * one.residual->step;
    }
    times.push_back({parameters_.Gradient(batch) * std::exp(gradient / weights),
                     parameters_.Step(nodes, ranks, batch) * std::exp(step / weights)});
  }
  return times;
}

}  // namespace rt
