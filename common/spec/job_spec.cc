#include "common/spec/job_spec.h"

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/spec/experiment_spec.h"

namespace rt {

absl::StatusOr<JobSpec> ParseJobSpec(const Json& json) {
  if (!json.is_object()) return SpecError("", "a job must be a map");
  JobSpec spec;
  spec.name = json.GetString("name");
  spec.bundle = json.GetString("bundle");
  spec.cwd = json.GetString("cwd");
  if (spec.name.size() > limits::kNameBytesMax) return SpecError("name", "is too long");
  if (spec.cwd.size() > limits::kPathBytesMax) return SpecError("cwd", "is too long");
  const Json* argv = json.Find("argv");
  if (argv == nullptr || !argv->is_array() || argv->array().empty())
    return SpecError("argv", "must be a list with at least the program");
  size_t total = 0;
  for (const Json& item : argv->array()) {
    if (!item.is_string() || item.AsString().find('\0') != std::string::npos)
      return SpecError("argv", "every argument must be text without NUL");
    spec.argv.push_back(item.AsString());
    total += spec.argv.back().size() + 1;
  }
  if (total > limits::kArgvBytesMax) return SpecError("argv", "is longer than 1 MiB");
  if (const Json* env = json.Find("env"); env != nullptr && env->is_object()) {
    for (const auto& [name, value] : env->object()) {
      if (name.empty() || name.find('=') != std::string::npos || !value.is_string())
        return SpecError("env/" + name, "must be text under a plain name");
      spec.env[name] = value.AsString();
    }
  }
  if (const Json* resources = json.Find("resources"); resources && !resources->is_null()) {
    RT_ASSIGN_OR_RETURN(spec.resources, ParseResourceRequest(*resources, "resources"));
    if (spec.resources.is_gang())
      return SpecError("resources", "a job is one program", "its experiments may ask for several");
  }
  RT_RETURN_IF_ERROR(ReadPreflight(json, spec.resources, spec.preflight));
  return spec;
}

}  // namespace rt
