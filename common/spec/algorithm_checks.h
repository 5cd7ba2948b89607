// Rules of an experiment that a user submits: what the options of its search algorithm and its
// scheduler say must agree with its other keys.
#pragma once

#include "absl/status/status.h"
#include "common/spec/experiment_spec.h"

namespace rt {

// A trial begins with the parameters of the space, so that the others would be mutated for nobody.
// Where none is mutated, the driver changes them.
absl::Status CheckMutated(const ExperimentSpec& spec);
// The option "points". The error has the name by which the user of `json` calls the algorithm.
absl::Status CheckPointsOf(const Json& json, const ExperimentSpec& spec);
// Each known result has as many numbers as the search reads of a trial, and a configuration whose
// numbers are numbers.
absl::Status CheckEvaluated(const Json& json, const ExperimentSpec& spec);

}  // namespace rt
