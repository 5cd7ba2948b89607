// What a search improves: `metric` and `mode`, one or several, and `constraints`. A step of
// ParseExperimentSpec. Pure.
#pragma once

#include "absl/status/status.h"
#include "common/base/json.h"
#include "common/spec/experiment_spec.h"

namespace rt {

// Errors carry the path of the culprit ("mode/1", "constraints/latency").
absl::Status ReadObjectives(const Json& json, ExperimentSpec& spec);
// Whether the algorithms of the spec know what to do with several objectives and constraints.
absl::Status CheckObjectives(const ExperimentSpec& spec);
// As people are shown them: [{metric, mode}], null with fewer than two, and {name: {"<=": number}},
// null without any.
Json ObjectivesJson(const ExperimentSpec& spec);
Json ConstraintsJson(const ExperimentSpec& spec);

}  // namespace rt
