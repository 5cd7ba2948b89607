// What one trial leaves in its directory: result.json (a JSON line per row), progress.csv (the
// same, flattened, without the configuration), events.out.tfevents.* for TensorBoard (its numbers
// and parameters), params.json, and error.txt when it failed. A clone also has a
// pbt_policy_*.txt, which is next to the trial's directory. Rows are collected and written in one
// go. A key that appears late makes progress.csv need all rows again. The cost of a row grows with
// its own keys and the columns of the trial, not with their product. progress.csv has a bounded
// number of columns: workers refuse rows with more metrics, but the head does not rely on that.
// An object belongs to one thread at a time.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "common/base/json.h"
#include "common/base/time.h"
#include "common/run/folder.h"
#include "common/spec/experiment_spec.h"
#include "head/core/events.h"
#include "head/sinks/cursor.h"

namespace rt {

// What a trial's files say of it besides its rows.
struct TrialFacts {
  std::string directory;  // Its name below the experiment's directory.
  std::string name;
  std::string params;  // JSON.
  Millis created_at = 0;
};

class TrialFiles {
 public:
  // `mark` is what the files hold already.
  TrialFiles(TrialFacts facts, TrialFilesMark mark);

  // Collects a row. False: it has a key without a column, and the caller has to Rewrite with every
  // row; nothing of the row was collected.
  [[nodiscard]] bool Add(const Json& result);
  // Collects that the trial is over.
  void AddEnd(Millis at, TrialEnd end);
  // Cuts the files to the mark, then appends what was collected. DataLoss when a file is shorter
  // than the mark: Rewrite.
  absl::Status Flush(const Folder& experiment);
  // Replaces the files; `end` with `ended_at`, when it is over.
  absl::Status Rewrite(const Folder& experiment, const std::vector<Json>& results, Millis ended_at,
                       TrialEnd end);

  const TrialFilesMark& mark() const { return mark_; }
  // Whether a key has no column because progress.csv has all the columns that it may have.
  bool lacks_columns() const { return lacks_columns_; }

 private:
  bool AddColumn(const std::string& name);
  std::string CsvLine(const Json::Object& cells);
  void AddScalars(const Json& result, const Json::Object& cells);

  TrialFacts facts_;
  TrialFilesMark mark_;
  std::unordered_map<std::string, size_t> column_;  // Its place among mark_.columns.
  bool lacks_columns_ = false;
  std::vector<const Json*> line_;  // Of the row at hand, by column; null between rows.
  std::string json_;  // Collected.
  std::string csv_;
  std::string events_;
};

// Writes what TensorBoard shows of the experiment as a whole.
absl::Status WriteExperiment(const Folder& experiment, Millis created_at,
                             const ExperimentSpec& spec);
absl::Status WriteParams(const Folder& trial, const std::string& params);
// Writes pbt_policy_EXP_NUM.txt with `lines`, those of a trial that was cloned.
absl::Status WritePolicy(const Folder& experiment, TrialId trial, const std::string& lines);
// Writes error.txt: the traceback, or what is known instead of one.
absl::Status WriteError(const Folder& trial, const ErrorInfo& error, const std::string& reason);
absl::Status RemoveError(const Folder& trial);  // It runs again.

}  // namespace rt
