// A predictor of the values of a space: a Gaussian process, or several that build on each other.
// Coordinates are those of the unit cube. Pure.
#pragma once

#include <vector>

namespace rt {

struct Prediction {
  double mean = 0, variance = 0;
};
// The derivatives of a prediction along each axis; 0 along categories.
struct PredictionSlopes {
  std::vector<double> mean, variance;
};

class Predictor {
 public:
  virtual ~Predictor() = default;

  virtual Prediction At(const std::vector<double>& x) const = 0;
  virtual Prediction At(const std::vector<double>& x, PredictionSlopes& slopes) const = 0;
  // The logarithms of the distances over which the values change, one per axis.
  virtual std::vector<double> LogLengths() const = 0;
};

}  // namespace rt
