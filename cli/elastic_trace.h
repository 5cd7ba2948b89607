// A trace of elastic jobs and the measurements of their applications, read from files:
//   FOLDER/workloads/ANY.csv                             the trace, which is named
//   FOLDER/traces/APPLICATION/placements.csv, sizes.csv, validation-BATCH.csv
//   FOLDER/applications.csv                              bounds of applications; need not be there
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/elastic/replay.h"

namespace rt {

struct ElasticTrace {
  std::vector<ReplaySubmission> workload;
  Applications applications;  // Those that the workload names.
};
// NotFound, or InvalidArgument with the file and the line.
absl::StatusOr<ElasticTrace> ReadElasticTrace(const std::string& path);

}  // namespace rt
