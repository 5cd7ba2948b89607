// What a search learns from earlier experiments before its first trial (`warm_start` of a model).
#pragma once

#include "absl/status/status.h"
#include "common/spec/experiment_spec.h"
#include "head/core/core.h"

namespace rt {

// Replaces the numbers of the experiments by their results, so that what is journalled with the new
// experiment says all that its answers follow from. InvalidArgument, with the option's path: there
// is no such experiment, or it has other objectives.
absl::Status AddWarmStart(const World& world, ExperimentSpec& spec);

}  // namespace rt
