#include "cli/bridge/optimizer.h"

#include <cmath>
#include <iostream>

#include "cli/bridge/bridge.h"
#include "common/algorithms/known_results.h"
#include "common/base/status.h"
#include "common/search/given_options.h"
#include "common/spec/space_check.h"

namespace rt {
namespace {

constexpr int64_t kAskMax = 10'000;  // Configurations of one request.

}  // namespace

absl::StatusOr<Json> OptimizerBridge::Operate(const Json& request) {
  const std::string op = request.GetString("op");
  if (op == "hello") return Json::MakeObject({{"version", RT_VERSION}});
  if (op == "open") return Open(request);
  if (!search_.has_value()) return absl::FailedPreconditionError("open comes first");
  if (op == "ask") return Ask(request);
  if (op == "tell") return Tell(request);
  if (op == "add") return Add(request);
  return Invalid("unknown op " + op);
}

absl::StatusOr<Json> OptimizerBridge::Open(const Json& request) {
  const Json* spec = request.Find("spec");
  if (spec == nullptr) return Invalid("spec is required");
  // A saved search continues, even where its spec would be refused as a new one.
  const bool saved = request.GetBool("saved");
  RT_ASSIGN_OR_RETURN(ExperimentSpec parsed,
                      ParseExperimentSpec(*spec, saved ? SpecSource::kJournal : SpecSource::kUser));
  if (saved)
    parsed.compares_configurations =
        FindTable(AlgorithmKind::kSearch, parsed.search.name)->needs_metric;
  const Json* warm = parsed.search.options.Find(kWarmStartOption);
  if (warm != nullptr && !warm->array().empty())
    return Invalid("warm_start needs a cluster, whose experiments it names", "use evaluated");
  EmptyUnusableResults(parsed);
  search_.emplace(std::move(parsed), static_cast<uint64_t>(request.GetInt("seed")));
  return Json::MakeObject();
}

absl::StatusOr<Json> OptimizerBridge::Ask(const Json& request) {
  const int64_t count = request.GetInt("n", 1);
  if (count < 1 || count > kAskMax)
    return Invalid("n must be between 1 and " + std::to_string(kAskMax));
  Json trials = Json::MakeArray();
  for (int64_t i = 0; i < count; ++i) {
    const std::optional<AskTell::Trial> asked = search_->Ask();
    if (!asked.has_value()) break;
    RT_ASSIGN_OR_RETURN(Json params, Json::Parse(asked->params));
    Json trial = Json::MakeObject({{"number", asked->number}, {"params", std::move(params)}});
    if (!asked->fallback.empty()) trial.Set("fallback", asked->fallback);
    trials.Append(std::move(trial));
  }
  return Json::MakeObject({{"trials", std::move(trials)}});
}

absl::StatusOr<Json> OptimizerBridge::Tell(const Json& request) {
  using Kind = TrialResult::Kind;
  const int64_t number = request.GetInt("number", -1);
  if (number < 0) return Invalid("number is required");
  TrialResult result{.kind = request.GetBool("unknown") ? Kind::kUnknown : Kind::kBad};
  if (const Json* value = request.Find("value"); value != nullptr) {
    if (!value->HasDouble() || !std::isfinite(value->AsDouble()))
      return Invalid("value must be a finite number");
    result = {Kind::kValue, value->AsDouble()};
  }
  // A search with several objectives, or with constraints, is told one value for each of them.
  if (const Json* values = request.Find("values"); values != nullptr) {
    if (!values->is_array() || values->array().empty())
      return Invalid("values must be a list of numbers");
    result = {Kind::kValue};
    for (const Json& value : values->array()) {
      if (!value.HasDouble()) return Invalid("values must be a list of numbers");
      result.outcome.push_back(value.AsDouble());
    }
  }
  RT_RETURN_IF_ERROR(search_->Tell(static_cast<uint64_t>(number), result));
  return Json::MakeObject();
}

absl::StatusOr<Json> OptimizerBridge::Add(const Json& request) {
  const Json* params = request.Find("params");
  if (params == nullptr || !params->is_array()) return Invalid("params must be an array");
  // The model learns nothing from a trial that was run elsewhere outside the space: it would take
  // the configuration for another one.
  const bool is_elsewhere = request.GetBool("elsewhere");
  if (is_elsewhere) {
    const NumberChecker checker(search_->space());
    for (const Json& one : params->array())
      RT_RETURN_IF_ERROR(checker.Check(one, "config", "", false));
  }
  Json unused = Json::MakeArray();
  for (const Json& one : params->array()) {
    const bool is_used = !is_elsewhere || search_->CanLearnFrom(one);
    search_->Add(is_used ? one.Dump() : "{}");
    if (!is_used) unused.Append(one);
  }
  return Json::MakeObject({{"unused", std::move(unused)}});
}

absl::Status ServeOptimizer() {
  std::ios::sync_with_stdio(false);
  OptimizerBridge bridge;
  std::string line;
  while (std::getline(std::cin, line)) {
    const absl::StatusOr<Json> request = Json::Parse(line);
    const bool is_request = request.ok() && request->is_object();
    const Json* id = is_request ? request->Find("id") : nullptr;
    const absl::StatusOr<Json> result =
        is_request ? bridge.Operate(*request) : absl::StatusOr<Json>(Invalid("not a JSON object"));
    std::cout << BridgeAnswer(id == nullptr ? Json() : *id, result).Dump() << std::endl;
    if (!std::cout) break;
  }
  return absl::OkStatus();
}

}  // namespace rt
