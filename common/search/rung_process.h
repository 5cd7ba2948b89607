// A Gaussian process over (configuration, rung): the values at a rung are a line in what is
// expected at the rung below it, plus a process of their own. Where low rungs say nothing of high
// ones, or the opposite, the slope of the line is near 0, or below it.
//
// Sources: Kennedy and O'Hagan, "Predicting the output from a complex computer code when fast
// approximations are available", 2000 (the chain); Golovin et al., "Google Vizier: a service for
// black-box optimization", 2017 (what is expected below counts as known). Values are about
// standardised, those of all rungs together. Pure; equal to the bit on every machine; one thread at
// a time. Cost: O(points^3) for each rung.
#pragma once

#include <cstddef>
#include <vector>

#include "common/search/gaussian_process.h"
#include "common/search/model.h"
#include "common/search/predictor.h"

namespace rt {

class RungProcess final : public Predictor {
 public:
  size_t rungs() const { return stages_.size(); }
  // Forgets the rungs from this one on.
  void ForgetFrom(size_t rung) {
    stages_.erase(stages_.begin() + static_cast<std::ptrdiff_t>(rung), stages_.end());
  }

  // Moves the parameters of `process` to those with which a rung above the known ones explains
  // these values best; returns what GaussianProcess::Fit returns.
  double Fit(const GaussianData& data, GaussianProcess& process, const GiveUp& give_up) const;
  // Adds a rung above the known ones. False: it cannot be computed.
  bool Add(GaussianData data, GaussianProcess process);
  // With more points at the highest rung, which count as if they had the value that is expected of
  // them there. False: it cannot be computed, and the object is of no use.
  bool Believe(const std::vector<std::vector<double>>& points);

  // Predictions at the highest rung. There must be a rung.
  double MeanAt(const std::vector<double>& x) const { return MeanOf(stages_.size(), x); }
  Prediction At(const std::vector<double>& x) const override;
  Prediction At(const std::vector<double>& x, PredictionSlopes& slopes) const override;
  // Those of the lowest rung, which has most values.
  std::vector<double> LogLengths() const override { return stages_.front().process.LogLengths(); }
  // The least value that is expected at a point of the data.
  double lowest() const { return stages_.back().lowest; }

 private:
  // How a rung depends on the one below it: slope * (x - centre). The first one does not.
  struct Line {
    double slope = 0, centre = 0, slope_variance = 0;
  };
  struct Stage {
    GaussianProcess process;  // Of what the values differ from the line.
    Line line;
    double lowest = 0;
  };

  double MeanOf(size_t rungs, const std::vector<double>& x) const;
  // The values that the known rungs predict for each point. Empty: no rung is known.
  std::vector<double> ExpectedAt(const GaussianData& data) const;
  // Replaces the values by what they differ from the line.
  static Line TakeLine(const std::vector<double>& expected, std::vector<double>& values);

  std::vector<Stage> stages_;
};

}  // namespace rt
