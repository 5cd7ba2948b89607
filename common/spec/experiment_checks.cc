#include "common/spec/experiment_checks.h"

#include <string>

#include "common/base/status.h"

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

}  // namespace rt
