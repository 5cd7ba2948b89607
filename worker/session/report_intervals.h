// How often a trial reports, and whether it has been silent for too long. Times are of a clock that
// only goes forward. Not thread-safe; pure.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "common/base/time.h"

namespace rt::worker {

class ReportIntervals {
 public:
  // A row came.
  void Note(Millis now);
  // What an earlier daemon saw, on the average.
  void Assume(Millis interval, Millis now);
  // It could not report, or its reports could not be taken: the silence starts again.
  void Excuse(Millis now) { since_ = now; }
  // The median of the newest intervals; nullopt until there are enough.
  std::optional<Millis> Median() const;
  // How long it may be silent: `factor` medians, at least `min`; nullopt while that is unknown.
  std::optional<Millis> Allowed(double factor, Millis min) const;
  Millis Silence(Millis now) const { return now - since_; }

 private:
  std::optional<Millis> last_;  // The newest row.
  Millis since_ = 0;
  std::deque<Millis> intervals_;
};

}  // namespace rt::worker
