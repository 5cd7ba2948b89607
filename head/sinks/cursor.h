// Where a sink stands: the last record that it has written down, and how long its open files were
// then. After a restart the files are cut to these lengths and the tail is written again, so every
// row appears once. Kept as JSON, replaced by rename.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"

namespace rt {

// Of one trial: what the files that grow held.
struct TrialFilesMark {
  uint64_t json_bytes = 0;
  uint64_t csv_bytes = 0;
  std::vector<std::string> columns;  // Of progress.csv.
  uint64_t events_bytes = 0;         // Of TensorBoard's file.
};

struct SinkCursor {
  uint64_t seq = 0;
  std::map<TrialId, TrialFilesMark> open;  // Trials that have rows and are not over.
  std::set<TrialId> refused;  // To be written whole: they were refused, or being written.
  std::set<ExperimentId> unbegun;  // Their own directory is to be begun.
};

// An absent file is the cursor at 0.
absl::StatusOr<SinkCursor> ReadCursor(const std::string& path);
// Durable when it returns.
absl::Status WriteCursor(const std::string& path, const SinkCursor& cursor);

}  // namespace rt
