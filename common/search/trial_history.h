// What the model of an experiment knows besides results: the search space as a cube, the points of
// the trials, and the configurations that the spec gives to the first of them. Owned by a
// SearchModel; used by one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/search/encoding.h"
#include "common/search/model.h"
#include "common/search/observations.h"
#include "common/search/outcomes.h"
#include "common/spec/experiment_spec.h"

namespace rt {

class TrialHistory {
 public:
  TrialHistory(const ExperimentSpec& spec, uint64_t seed);

  // Not ok: the space cannot be searched by a model, and Encode to Decode are not for use.
  const absl::Status& status() const { return encoding_.status(); }
  const Encoding& encoding() const { return *encoding_; }

  // The next trial. A configuration outside the space, as a given one may be, is no point.
  void Add(const Json& params);
  void ForgetFrom(uint64_t number);
  // What the spec gives to trial `number`, if anything.
  std::optional<Json> GivenTo(uint64_t number) const;
  // `results` has an entry for each trial that was added. Values are negated where the mode is max;
  // trials whose end says nothing are left out.
  // Valid until the next call of a function that is not const; costs what is new.
  const Observations& SeenIn(const std::vector<TrialResult>& results);
  // Converts a belief about the trials of SeenIn: to numbers of the experiment's trials, and to the
  // sign of the metric.
  ModelBelief AsReported(ModelBelief belief) const;
  // The configuration at a point; an error when a coordinate is not finite.
  absl::StatusOr<Json> ConfigurationAt(const Point& point) const;

 private:
  void AddEvaluated(const Json& result);
  std::vector<RungResult> Minimised(std::vector<RungResult> rungs) const;

  const absl::StatusOr<Encoding> encoding_;
  const double sign_;
  const Outcomes outcomes_;
  std::vector<Json> given_;                   // By number.
  // What is known from elsewhere. It comes before the trials, whose numbers it moves up.
  std::vector<FinishedTrial> evaluated_;
  std::vector<std::optional<Point>> points_;  // By number.
  // What SeenIn returned, and the results by number of which its finished trials are made. Those of
  // other trials are open.
  Observations seen_;
  std::vector<TrialResult> settled_;
};

}  // namespace rt
