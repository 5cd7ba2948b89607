// Rules of an experiment that a user submits, between keys of different areas.
#pragma once

#include "absl/status/status.h"
#include "common/spec/experiment_spec.h"

namespace rt {

// InvalidArgument names the first key that does not go with the others.
absl::Status CheckTogether(const ExperimentSpec& spec);
// The same where the scheduler of `json` would have more rungs than kRungsMax, at which the ladder
// of a journalled experiment is cut.
absl::Status CheckRungs(const Json& json, const ExperimentSpec& spec);
// InvalidArgument where a plateau rule of `json` is a number: it would be the threshold of a metric
// of that name.
absl::Status CheckPlateaus(const Json& json);

}  // namespace rt
