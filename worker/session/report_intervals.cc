#include "worker/session/report_intervals.h"

#include <algorithm>
#include <vector>

namespace rt::worker {
namespace {

constexpr size_t kIntervalsMin = 2;  // Three rows.
constexpr size_t kIntervalsMax = 33;

}  // namespace

void ReportIntervals::Note(Millis now) {
  if (last_) intervals_.push_back(now - *last_);
  if (intervals_.size() > kIntervalsMax) intervals_.pop_front();
  last_ = since_ = now;
}

void ReportIntervals::Assume(Millis interval, Millis now) {
  intervals_.assign(kIntervalsMin, interval);
  since_ = now;
}

std::optional<Millis> ReportIntervals::Median() const {
  if (intervals_.size() < kIntervalsMin) return std::nullopt;
  std::vector<Millis> sorted(intervals_.begin(), intervals_.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];  // Of two the longer: it is not to be hurried.
}

std::optional<Millis> ReportIntervals::Allowed(double factor, Millis min) const {
  const std::optional<Millis> median = Median();
  if (!median) return std::nullopt;
  return std::max(min, static_cast<Millis>(factor * static_cast<double>(*median)));
}

}  // namespace rt::worker
