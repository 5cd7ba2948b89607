// An application as it was measured once: how long its steps take by placement and local batch, and
// how its training progresses by epoch. Replays train with it instead of a program. The tables are
// those of the artifact of Pollux (tests/data/elastic/README.md). Pure: it reads texts, not files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/elastic/profile.h"

namespace rt {

// The CSV files of one application, each with a line of titles.
struct ApplicationTexts {
  std::string name;
  std::string placements;  // placement,local_bsz,step_time,sync_time
  std::string sizes;       // nodes,ranks,local_bsz,step_time,sync_time: placements not in there
  std::map<uint32_t, std::string> validations;  // By total batch: progress,_,_,grad_sqr,grad_var
  uint32_t local_max = 0;                       // 0: the largest of the placements.
  uint32_t fixed_batch = 0;                     // It trains with this total batch; 0: its best one.
  uint32_t ranks_max = 0;                       // 0: as many as its batches allow.
};

class MeasuredApplication {
 public:
  static absl::StatusOr<MeasuredApplication> Parse(const ApplicationTexts& texts);

  struct Times {
    double step_s = 0, sync_s = 0;
  };
  // `ranks`: those of each node of the job. Unavailable outside of what was measured.
  absl::StatusOr<Times> StepOf(const std::vector<uint32_t>& ranks, uint32_t local_batch) const;
  // The noise with this total batch, in an epoch from 0.
  GradientNoise NoiseOf(double batch, size_t epoch) const;

  const std::string& name() const { return name_; }
  const BatchLimits& batches() const { return batches_; }
  uint32_t ranks_max() const { return ranks_max_; }
  uint32_t fixed_batch() const { return fixed_batch_; }
  size_t epochs() const { return progress_.size() - 1; }
  // Scale-invariant iterations at the end of so many epochs.
  double ProgressAfter(size_t epochs) const { return progress_[epochs]; }

 private:
  struct Row {
    double local_batch = 0;
    Times times;
  };
  struct Validation {
    std::vector<double> progress;
    std::vector<GradientNoise> noise;
  };
  using Rows = std::vector<Row>;  // Ascending by local batch.
  absl::Status ReadTimes(const ApplicationTexts& texts);
  absl::Status ReadValidations(const ApplicationTexts& texts);

  std::string name_;
  BatchLimits batches_;
  uint32_t ranks_max_ = 0, fixed_batch_ = 0;
  std::map<std::string, Rows> placements_;
  std::map<std::pair<uint32_t, uint32_t>, Rows> sizes_;  // By (nodes, ranks).
  std::map<uint32_t, Validation> validations_;           // By total batch.
  std::vector<double> progress_;
};

// The rows of a CSV text below its titles, each with `columns` values at least.
absl::StatusOr<std::vector<std::vector<std::string>>> ReadCsv(const std::string& name,
                                                              std::string_view text,
                                                              size_t columns);

}  // namespace rt
