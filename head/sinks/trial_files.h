// What one trial leaves in its directory: result.json (a JSON line per row), progress.csv (the
// same, flattened, without the configuration), params.json, and error.txt when it failed. Rows are
// collected and written in one go; a key that appears late makes progress.csv need all rows again.
// For the sinks' thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/json.h"
#include "head/core/events.h"
#include "head/sinks/cursor.h"

namespace rt {

class TrialFiles {
 public:
  // `mark` is what the files hold already.
  TrialFiles(std::string directory, TrialFilesMark mark)
      : directory_(std::move(directory)), mark_(std::move(mark)) {}

  // Collects a row. False: it has a key without a column, or the files are not as marked, and the
  // caller has to Rewrite with every row.
  [[nodiscard]] bool Add(const Json& result);
  // Cuts the files to the mark, then appends what was collected. FailedPrecondition when a file is
  // shorter than the mark: Rewrite.
  absl::Status Flush();
  // Replaces both files.
  absl::Status Rewrite(const std::vector<Json>& results);

  const TrialFilesMark& mark() const { return mark_; }

 private:
  absl::Status Append(const char* name, const std::string& text, uint64_t& length);

  std::string directory_;
  TrialFilesMark mark_;
  std::string json_;  // Collected.
  std::string csv_;
};

// Makes the directory and writes params.json.
absl::Status WriteParams(const std::string& directory, const std::string& params);
// Makes the directory and writes error.txt: the traceback, or what is known instead of one.
absl::Status WriteError(const std::string& directory, const event::TrialEnded& ended);
// Replaces a file by rename, so that nobody sees half of it.
absl::Status ReplaceFile(const std::string& path, const std::string& text);

}  // namespace rt
