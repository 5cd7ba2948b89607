// A search algorithm that learns from results: a model, which runs on the compute lane, beside the
// core. For each experiment the lane makes one object of it, which may keep what follows from
// configurations (they never change), and what follows from earlier results if it checks each time
// that they are still as they were. What it proposes is a function of the experiment, the seed, the
// number and the results that it is given. So an answer of a journal can be computed again, by an
// object that was made for it. Used by one thread at a time. It may refuse, throw, or take too
// long: the head continues without it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"

namespace rt {

// The value of a trial at a rung of its scheduler, which may be NaN.
struct RungResult {
  double milestone = 0;
  double value = 0;  // As it was reported: not negated where the mode is max.
  friend bool operator==(const RungResult& a, const RungResult& b) {
    const bool are_nan = a.value != a.value && b.value != b.value;
    return a.milestone == b.milestone && (a.value == b.value || are_nan);
  }
};
// The milestone of the value with which a trial was trained to its end.
inline constexpr double kTrainedToTheEnd = std::numeric_limits<double>::infinity();

// What is known of one trial.
struct TrialResult {
  enum class Kind : uint8_t {
    kOpen,     // It waits, runs, or is paused.
    kValue,    // It has ended, and this is the best value of its metric.
    kBad,      // It has ended without a value, or failed: its configuration is to blame.
    kUnknown,  // It has ended, and that says nothing about its configuration.
  };
  Kind kind = Kind::kOpen;
  double value = 0;  // Of kValue, as it was reported: not negated where the mode is max.
  // When it ended, in milliseconds of the head's clock; 0 of kOpen. Trials may end at one time.
  int64_t ended_at = 0;
  // Where the experiment has OutcomeKeys: their values in the trial's newest row, in that order.
  // Empty of a trial without such a row, which counts as kBad.
  std::vector<double> outcome = {};
  // Where the table of the algorithm has reads_rungs: what was recorded so far, also of an open
  // trial, by milestone. A completed trial has its value at kTrainedToTheEnd besides.
  std::vector<RungResult> rungs = {};
  friend bool operator==(const TrialResult&, const TrialResult&) = default;
};

// A model's prediction of a trial's metric: the median, and the bounds one standard deviation below
// and above it, between which about two thirds of the probability lie. In the metric's unit.
struct Expectation {
  double value = 0, low = 0, high = 0;
  // The prediction of the negated metric.
  Expectation Negated() const { return {-value, -high, -low}; }
};
// A model's predictions for the best trial so far and for the trial that it proposed last.
struct ModelBelief {
  std::optional<uint64_t> best;  // The trial's number; nullopt: the best is a known result.
  uint64_t next = 0;
  Expectation of_best, of_next;
};

// Asked now and then; true: give up, the answer would come too late.
using GiveUp = std::function<bool()>;

class SearchModel {
 public:
  SearchModel() = default;
  SearchModel(const SearchModel&) = delete;
  SearchModel& operator=(const SearchModel&) = delete;
  virtual ~SearchModel() = default;

  // The configuration of the next trial, an object; trials come in the order of their numbers.
  virtual void AddTrial(const Json& params) = 0;
  // The configuration of trial `results.size()`. `results` has an entry for each added trial.
  // DeadlineExceeded: `give_up` said so. Any other error says why there is no answer.
  virtual absl::StatusOr<Json> Propose(const std::vector<TrialResult>& results,
                                       const GiveUp& give_up) = 0;
  // The model's predictions, for people to read: nothing is decided by them. nullopt: the last
  // proposal did not come from a model, or the model predicts no values.
  virtual std::optional<ModelBelief> belief() const { return std::nullopt; }
  // Takes back the trials from this number on: they may get other configurations.
  virtual void ForgetFrom(uint64_t number) = 0;
};

}  // namespace rt
