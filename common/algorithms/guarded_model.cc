#include "common/algorithms/guarded_model.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "common/algorithms/registry.h"
#include "common/base/limits.h"
#include "common/base/status.h"

namespace rt {
namespace {

bool IsFinite(const Json& value) {
  if (value.is_number()) return std::isfinite(value.AsDouble());
  if (value.is_array()) return std::all_of(value.array().begin(), value.array().end(), IsFinite);
  if (!value.is_object()) return true;
  return std::all_of(value.object().begin(), value.object().end(),
                     [](const auto& member) { return IsFinite(member.second); });
}

}  // namespace

std::string FallbackReason(std::string reason) {
  if (reason.size() > limits::kFallbackReasonMax) reason.resize(limits::kFallbackReasonMax);
  return reason.empty() ? "no reason was given" : reason;
}

GuardedModel::GuardedModel(const ExperimentSpec& spec, uint64_t seed)
    : variables_(spec.space.variables.size()) {
  Guard([&] { model_ = SearcherOf(spec).MakeModel(spec, seed); });
  if (model_ == nullptr && broken_.empty()) broken_ = "it has no model";
}

template <class Call>
void GuardedModel::Guard(Call&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    broken_ = FallbackReason(error.what());
  } catch (...) {
    broken_ = "it ended with an exception";
  }
}

void GuardedModel::Add(const std::string& params) {
  if (model_ == nullptr) return;
  Guard([&] {
    const absl::StatusOr<Json> parsed = Json::Parse(params);
    model_->AddTrial(parsed.ok() ? *parsed : Json::MakeObject());
  });
}

void GuardedModel::ForgetFrom(uint64_t number) {
  if (model_ == nullptr) return;
  Guard([&] { model_->ForgetFrom(number); });
}

absl::StatusOr<std::string> GuardedModel::Ask(const std::vector<TrialResult>& results,
                                              const GiveUp& give_up) {
  if (!broken_.empty()) return absl::InternalError(broken_);
  if (results.size() * variables_ > limits::kModelCoordinatesMax)
    return absl::ResourceExhaustedError("its history is larger than a model may keep");
  if (give_up && give_up()) return absl::DeadlineExceededError("");
  absl::StatusOr<Json> proposed = absl::InternalError("");
  belief_.reset();
  try {
    proposed = model_->Propose(results, give_up);
    if (proposed.ok()) belief_ = model_->belief();
  } catch (const std::exception& error) {  // The next number may fare better.
    return absl::InternalError(error.what());
  } catch (...) {
    return absl::InternalError("it ended with an exception");
  }
  RT_RETURN_IF_ERROR(proposed.status());
  if (!proposed->is_object() || !IsFinite(*proposed))
    return absl::InternalError("its configuration has a value that is not finite");
  std::string text = proposed->Dump();
  if (text.size() > limits::kParamsBytesMax)
    return absl::InternalError("its configuration is too long");
  return text;
}

}  // namespace rt
