// What one trial leaves in its directory: result.json (a JSON line per row), progress.csv (the
// same, flattened, without the configuration), events.out.tfevents.* for TensorBoard (its numbers
// and parameters), params.json, and error.txt when it failed. Rows are
// collected and written in one go; a key that appears late makes progress.csv need all rows again.
// For the sinks' thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/json.h"
#include "common/base/time.h"
#include "common/spec/experiment_spec.h"
#include "head/core/events.h"
#include "head/sinks/cursor.h"

namespace rt {

// What a trial's files say of it besides its rows.
struct TrialFacts {
  std::string directory;
  std::string name;
  std::string params;  // JSON.
  Millis created_at = 0;
};

class TrialFiles {
 public:
  // `mark` is what the files hold already.
  TrialFiles(TrialFacts facts, TrialFilesMark mark)
      : facts_(std::move(facts)), mark_(std::move(mark)) {}

  // Collects a row. False: it has a key without a column, or the files are not as marked, and the
  // caller has to Rewrite with every row.
  [[nodiscard]] bool Add(const Json& result);
  // Collects that the trial is over.
  void AddEnd(Millis at, TrialEnd end);
  // Cuts the files to the mark, then appends what was collected. FailedPrecondition when a file is
  // shorter than the mark: Rewrite.
  absl::Status Flush();
  // Replaces the files; `end` with `ended_at`, when it is over.
  absl::Status Rewrite(const std::vector<Json>& results, Millis ended_at, TrialEnd end);

  const TrialFilesMark& mark() const { return mark_; }

 private:
  void AddScalars(const Json& result, const Json::Object& cells);
  absl::Status Append(const std::string& name, const std::string& text, uint64_t& length);

  TrialFacts facts_;
  TrialFilesMark mark_;
  std::string json_;  // Collected.
  std::string csv_;
  std::string events_;
};

// Makes the directory and writes what TensorBoard shows of the experiment as a whole.
absl::Status WriteExperiment(const std::string& directory, Millis created_at,
                             const ExperimentSpec& spec);
// Makes the directory and writes params.json.
absl::Status WriteParams(const std::string& directory, const std::string& params);
// Makes the directory and writes error.txt: the traceback, or what is known instead of one.
absl::Status WriteError(const std::string& directory, const event::TrialEnded& ended);
absl::Status RemoveError(const std::string& directory);  // It runs again.
// Replaces a file by rename, so that nobody sees half of it.
absl::Status ReplaceFile(const std::string& path, const std::string& text);

}  // namespace rt
