// Rules of an experiment that a user submits: what the options of its search algorithm and its
// scheduler say must agree with its other keys.
#pragma once

#include "absl/status/status.h"
#include "common/spec/experiment_spec.h"

namespace rt {

// InvalidArgument if the scheduler mutates a parameter that the space does not have, or mutates
// none although no driver makes the configurations of clones (`driver.explores`).
absl::Status CheckMutated(const ExperimentSpec& spec);
// Checks the option "points". Errors name the algorithm as the user of `json` does.
absl::Status CheckPointsOf(const Json& json, const ExperimentSpec& spec);
// Checks the option "evaluated": each result has as many values as the search reads of a trial, and
// numbers for the numeric parameters.
absl::Status CheckEvaluated(const Json& json, const ExperimentSpec& spec);

}  // namespace rt
