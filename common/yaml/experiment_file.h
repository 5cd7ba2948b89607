// An experiment YAML as the JSON that the head takes, checked: errors carry file:line:column.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/spec/experiment_spec.h"
#include "common/yaml/yaml_json.h"

namespace rt {

struct ExperimentFile {
  Json json;  // As ParseExperimentSpec takes it.
  ExperimentSpec spec;
  YamlDocument document;  // For the places of what is found out later.
};
absl::StatusOr<ExperimentFile> LoadExperiment(const std::string& filename);
absl::StatusOr<ExperimentFile> LoadExperiment(const YamlDocument& document);

}  // namespace rt
