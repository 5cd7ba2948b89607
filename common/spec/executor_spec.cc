#include "common/spec/executor_spec.h"

#include "common/base/limits.h"
#include "common/base/status.h"

namespace rt {
namespace {

absl::Status ReadExecutorInputs(const Json& json, std::vector<InputFile>& inputs) {
  const Json* value = json.Find("inputs");
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  if (!value->is_array()) return SpecError("inputs", "must be a list");
  for (const Json& item : value->array()) {
    InputFile input{item.GetString("manifest"), item.GetString("env")};
    if (input.manifest.empty() || input.env.empty())
      return SpecError("inputs", "each needs 'manifest' and 'env'");
    inputs.push_back(std::move(input));
  }
  return absl::OkStatus();
}

absl::Status ReadActor(const Json& json, ExecutorSpec& spec) {
  const Json* actor = json.Find("actor");
  if (actor == nullptr || actor->is_null()) {
    if (!spec.detached) return absl::OkStatus();
    return SpecError("actor", "a detached executor needs the name of its actor",
                     "without a name nobody could find it again");
  }
  if (!actor->is_object()) return SpecError("actor", "must be a map of 'name' and 'class'");
  spec.actor_name = actor->GetString("name");
  spec.actor_class = actor->GetString("class");
  if (spec.detached && spec.actor_name.empty()) return SpecError("actor/name", "is required");
  if (spec.actor_name.size() > limits::kNameBytesMax) return SpecError("actor/name", "is too long");
  if (spec.actor_class.size() > limits::kNameBytesMax)
    return SpecError("actor/class", "is too long");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExecutorSpec> ParseExecutorSpec(const Json& json) {
  if (!json.is_object()) return SpecError("", "an executor must be a map");
  ExecutorSpec spec;
  RT_ASSIGN_OR_RETURN(spec.program, ParseJobSpec(json));
  RT_RETURN_IF_ERROR(ReadExecutorInputs(json, spec.inputs));
  if (const Json* params = json.Find("params"); params != nullptr && !params->is_null()) {
    if (!params->is_object()) return SpecError("params", "must be a map");
    spec.params = params->Dump();
  }
  spec.detached = json.GetBool("detached");
  RT_RETURN_IF_ERROR(ReadActor(json, spec));
  spec.max_restarts = json.GetInt("max_restarts", 0);
  if (spec.max_restarts < -1)
    return SpecError("max_restarts", "must be at least -1", "-1 means without a bound");
  return spec;
}

}  // namespace rt
