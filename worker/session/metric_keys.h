// The names of the metrics that one attempt has reported, and the bounds on them. A row with too
// many is refused where it is reported, before it costs a spool, the journal or a result file
// anything. What an earlier daemon saw is not counted. Not thread-safe.
#pragma once

#include <string>
#include <unordered_set>

#include "absl/status/status.h"
#include "common/base/json.h"

namespace rt::worker {

class MetricKeys {
 public:
  // Remembers the names of the row's metrics. InvalidArgument, and nothing is remembered, when they
  // are more than limits::kMetricKeysPerRow, or would be more than limits::kMetricKeysPerTrial with
  // those of earlier rows.
  absl::Status Add(const Json& metrics);

 private:
  std::unordered_set<std::string> known_;
};

}  // namespace rt::worker
