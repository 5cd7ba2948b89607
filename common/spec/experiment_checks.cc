#include "common/spec/experiment_checks.h"

#include <cmath>
#include <string>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

// What these start is a child of a daemon of theirs, and no process of the trial.
absl::Status CheckSuspend(const ExperimentSpec& spec) {
  if (!spec.suspend || spec.command.empty()) return absl::OkStatus();
  const std::string& path = spec.command.front();
  const std::string name = path.substr(path.rfind('/') + 1);
  for (const char* client : {"docker", "podman", "nerdctl", "ctr", "crictl"})
    if (name == client)
      return SpecError("suspend",
                       "stops the processes of a trial, and a container that '" + name +
                           "' starts is none of them",
                       "leave suspend out, or start the program without '" + name + "'");
  return absl::OkStatus();
}

// Who changes the resources of running trials.
absl::Status CheckAllocating(const ExperimentSpec& spec) {
  if (!spec.driver.allocates) return absl::OkStatus();
  if (spec.reallocation.is_given())
    return SpecError("driver/allocates", "the head changes the resources of these trials",
                     "leave reallocation out");
  if (spec.resources.is_elastic())
    return SpecError("driver/allocates", "is not for trials whose number of ranks the head changes",
                     "give resources/ranks as one number");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTogether(const ExperimentSpec& spec) {
  RT_RETURN_IF_ERROR(CheckSuspend(spec));
  return CheckAllocating(spec);
}

absl::Status CheckRungs(const Json& json, const ExperimentSpec& spec) {
  const Json* given = json.Find("scheduler");
  const Json& options = spec.scheduler.options;
  const Json *grace = options.Find("grace_period"), *factor = options.Find("reduction_factor");
  const bool has_ladder =
      grace != nullptr && factor != nullptr && given != nullptr && given->is_object();
  if (!has_ladder) return absl::OkStatus();
  const double max_t = options.GetDouble("max_t");
  const double width = std::log(max_t / grace->AsDouble());
  if (width / std::log(factor->AsDouble()) < limits::kRungsMax) return absl::OkStatus();
  const double least = std::exp(width / (limits::kRungsMax - 1));
  return SpecError("scheduler/" + given->object().front().first + "/reduction_factor",
                   FormatDouble(factor->AsDouble()) + " makes more than " +
                       std::to_string(limits::kRungsMax) + " rungs between grace_period " +
                       FormatDouble(grace->AsDouble()) + " and max_t " + FormatDouble(max_t),
                   "at least " + FormatDouble(std::ceil(least * 1e4) / 1e4) +
                       " is needed; usual values are 2 to 4");
}

absl::Status CheckPlateaus(const Json& json) {
  const Json* stop = json.Find("stop");
  if (stop == nullptr || !stop->is_object()) return absl::OkStatus();
  for (const char* name : {"plateau", "experiment_plateau"})
    if (const Json* rule = stop->Find(name); rule != nullptr && !rule->is_object())
      return SpecError(std::string("stop/") + name,
                       "must be a map of the rule's options, for example {std: 0.001}",
                       "a threshold for a metric of this name is written {'>=': 3}");
  return absl::OkStatus();
}

}  // namespace rt
