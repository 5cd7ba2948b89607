// The regular expressions of an experiment's spec. A journal may hold one that an earlier release
// accepted and this one refuses: its reader (journalled_spec.h) switches that one off.
#pragma once

#include "absl/status/status.h"
#include "common/spec/experiment_spec.h"

namespace rt {

// Of `report_regex` and `retry`. The error names the path of the culprit (SpecPathOf).
absl::Status CheckPatterns(const ExperimentSpec& spec);
// Whether the workers can search for report_regex, and its groups say what is reported.
absl::Status CheckReportRegex(const ExperimentSpec& spec);

}  // namespace rt
