// A search algorithm in a loop of the user's own, without a cluster: ask for configurations, tell
// what came of them, in any order and with any number of them open. The answers are those that the
// head gives to the same results. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/algorithms/guarded_model.h"
#include "common/search/model.h"
#include "common/spec/experiment_spec.h"

namespace rt {

class AskTell {
 public:
  AskTell(ExperimentSpec spec, uint64_t seed);

  struct Trial {
    uint64_t number;
    std::string params;    // JSON.
    std::string fallback;  // Why the model gave no answer; empty: it did, or there is none.
  };
  // The next trial; nullopt: the space is used up.
  std::optional<Trial> Ask();
  const Space& space() const { return spec_.space; }
  // Whether `config` lies in the space; always true for a search without a model.
  bool CanLearnFrom(const Json& config) const;
  // A trial that was asked for elsewhere, as after a restart: the next number.
  void Add(const std::string& params);
  // How trial `number` ended: kValue, kBad or kUnknown. `ended_at` of the result is set here:
  // results have the order in which they are told. NotFound: it was not asked for.
  // FailedPrecondition: it was told before.
  absl::Status Tell(uint64_t number, TrialResult result);

 private:
  const ExperimentSpec spec_;
  const uint64_t seed_;
  std::optional<GuardedModel> model_;  // Empty: an algorithm that does not learn.
  std::vector<TrialResult> results_;   // Of all trials.
  int64_t told_ = 0;
};

}  // namespace rt
