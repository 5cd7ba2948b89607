// Calls a search model and turns its failures into errors with a reason: a model may refuse, throw,
// or return a value that is not a configuration. The caller then uses the configuration that the
// search algorithm proposes without results (common/search/model.h). Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/search/model.h"
#include "common/spec/experiment_spec.h"

namespace rt {

class GuardedModel {
 public:
  GuardedModel(const ExperimentSpec& spec, uint64_t seed);

  // The configuration of the next trial, JSON, as its host keeps it.
  void Add(const std::string& params);
  void ForgetFrom(uint64_t number);
  // The configuration, JSON, of trial `results.size()`. DeadlineExceeded: `give_up` said so.
  absl::StatusOr<std::string> Ask(const std::vector<TrialResult>& results, const GiveUp& give_up);
  // SearchModel::belief after the last Ask that had an answer.
  std::optional<ModelBelief> belief() const { return belief_; }

 private:
  // Runs `call`, and notes what it throws as the reason why the model is not asked any more.
  template <class Call>
  void Guard(Call&& call);

  const size_t variables_;
  std::unique_ptr<SearchModel> model_;
  std::optional<ModelBelief> belief_;
  std::string broken_;  // Why the model cannot be asked; empty: it can.
};

// The reason as it is kept: bounded, and never empty.
std::string FallbackReason(std::string reason);

}  // namespace rt
