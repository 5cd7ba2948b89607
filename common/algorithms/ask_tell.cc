#include "common/algorithms/ask_tell.h"

#include <utility>

#include "common/algorithms/known_results.h"
#include "common/algorithms/registry.h"
#include "common/base/status.h"

namespace rt {

AskTell::AskTell(ExperimentSpec spec, uint64_t seed) : spec_(std::move(spec)), seed_(seed) {
  if (SearcherOf(spec_).is_model()) model_.emplace(spec_, seed_);
}

std::optional<AskTell::Trial> AskTell::Ask() {
  Trial trial{.number = results_.size(), .params = {}, .fallback = {}};
  if (trial.number >= spec_.TrialsTotal().value_or(UINT64_MAX)) return std::nullopt;
  absl::StatusOr<std::string> params = absl::InternalError("");
  if (model_.has_value()) params = model_->Ask(results_, {});
  if (!params.ok()) {
    if (model_.has_value()) trial.fallback = FallbackReason(MessageOf(params.status()));
    const std::optional<Json> proposed = SearcherOf(spec_).Propose(spec_, seed_, trial.number);
    if (!proposed.has_value()) return std::nullopt;
    params = proposed->Dump();
  }
  trial.params = *std::move(params);
  Add(trial.params);
  return trial;
}

bool AskTell::CanLearnFrom(const Json& config) const {
  if (!model_.has_value()) return true;
  const absl::StatusOr<Encoding> encoding = Encoding::Of(spec_.space);
  return !encoding.ok() || LiesIn(*encoding, spec_.space, config);
}

void AskTell::Add(const std::string& params) {
  if (model_.has_value()) model_->Add(params);
  results_.push_back({});
}

absl::Status AskTell::Tell(uint64_t number, TrialResult result) {
  if (number >= results_.size())
    return absl::NotFoundError("trial " + std::to_string(number) + " was not asked for");
  TrialResult& known = results_[number];
  if (known.kind != TrialResult::Kind::kOpen)
    return absl::FailedPreconditionError("the result of trial " + std::to_string(number) +
                                         " was told before");
  const size_t wanted = spec_.OutcomeKeys().size();
  if (result.kind == TrialResult::Kind::kValue && result.outcome.size() != wanted)
    return Invalid(wanted == 0 ? "the search has one objective: tell it one value"
                               : "the search has " + std::to_string(wanted) +
                                     " objectives and constraints: tell it a value for each");
  known = result;
  known.ended_at = ++told_;
  return absl::OkStatus();
}

}  // namespace rt
