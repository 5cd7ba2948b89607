// The objective's values as a Gaussian process sees them: t = c ln(1 + u / c), standardised, with
// u = (value - least) / (median - least). A small scale c keeps large values from hiding the
// differences between small ones; an infinite one leaves them as they are. Affine changes of the
// values change nothing. Of our own research (docs/search-quality.md has the figures). Pure.
#pragma once

#include <limits>
#include <vector>

#include "common/search/model.h"
#include "common/search/predictor.h"

namespace rt {

// The logarithm of the scale that changes nothing.
inline constexpr double kNoScale = std::numeric_limits<double>::infinity();

// Writes the values with the scale to `warped`, and returns the logarithm of the Jacobian's
// determinant, by which the likelihoods of different scales are compared. At least one value; all
// are finite.
double WarpValues(double log_scale, const std::vector<double>& values, std::vector<double>& warped);

// Converts a prediction among the warped values to the unit of `values`.
Expectation Unwarp(double log_scale, const std::vector<double>& values,
                   const Prediction& prediction);

// The logarithms of scales that are worth a comparison: at first (no scale was selected yet), or
// near the one that was selected.
std::vector<double> ScalesToCompare(bool is_selected, double log_scale);

}  // namespace rt
