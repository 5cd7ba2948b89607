// A model of the objective over the whole space: a Gaussian process on warped values, whose kernel,
// scale of the values and parameters are learned step by step as results come.
//
// What it has learned is a function of the results in their order: it is fitted at certain numbers
// of results, from the parameters that it had. Sources: gaussian_process.h and value_warp.h; when
// it is fitted is of our own research. Pure; equal to the bit on every machine; one thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/search/encoding.h"
#include "common/search/gaussian_process.h"
#include "common/search/model.h"
#include "common/search/predictor.h"

namespace rt {

// What a process over the whole space assumes before it knows values.
GaussianForm WholeForm(const Encoding& encoding, double noise_chance = 0);

class ValueModel {
 public:
  // `noise_chance` is that of GaussianForm.
  ValueModel(const Encoding& encoding, uint64_t seed, double noise_chance);

  // Whether Learn does anything at this number of results.
  bool LearnsAt(size_t results) const;
  // `data` are points of the cube and values as they are, all finite and not all equal; they are
  // those of `results` results, or a selection. False: given up, and this object is of no use.
  bool Learn(const GaussianData& data, size_t results, const GiveUp& give_up);

  // The model for proposals, from data as in Learn.
  struct Conditioned {
    GaussianProcess process;
    double lowest = 0;  // The least value that the process expects at a point of the data.
  };
  // nullopt: the process cannot be computed.
  std::optional<Conditioned> Condition(const GaussianData& data) const;
  // Converts a prediction of a process that was conditioned on `data` to the unit of the values.
  Expectation ExpectationOf(const GaussianData& data, const Prediction& prediction) const;

 private:
  bool SelectScale(const GaussianData& data, const GiveUp& give_up);
  bool LeaveMinimum(const GaussianData& data, size_t results, const GiveUp& give_up);

  uint64_t seed_;
  bool is_perhaps_noisy_;
  GaussianProcess process_;
  double log_scale_;
  bool is_selected_ = false;  // Scale and kernel were selected once.
  // At so many results: scale and kernel were selected, the parameters were fitted, and other
  // starts of the fit were tried.
  size_t selected_at_ = 0, fitted_at_ = 0, restarted_at_ = 0;
};

// With more points, which count as if they had the value that the process expects of them.
// Source: Ginsbourger et al., "Kriging is well-suited to parallelize optimization", 2010. False: it
// cannot be computed, and `process` is of no use.
bool Believe(GaussianProcess& process, const std::vector<Point>& points);

}  // namespace rt
