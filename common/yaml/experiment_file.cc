#include "common/yaml/experiment_file.h"

#include "common/spec/slips.h"

namespace rt {

absl::StatusOr<ExperimentFile> LoadExperiment(const YamlDocument& document) {
  if (!document.value.is_object())
    return document.At(Invalid("an experiment is a map of keys"), "");
  absl::StatusOr<ExperimentSpec> spec = ParseExperimentSpec(document.value);
  if (!spec.ok()) {
    bool about_key = MessageOf(spec.status()).find("unknown key") != std::string::npos;
    return document.At(spec.status(), SpecPathOf(spec.status()), about_key);
  }
  if (absl::Status slip = CheckWritten(document.value); !slip.ok())
    return document.At(slip, SpecPathOf(slip), true);
  return ExperimentFile{document.value, *std::move(spec), document};
}

absl::StatusOr<ExperimentFile> LoadExperiment(const std::string& filename) {
  RT_ASSIGN_OR_RETURN(YamlDocument document, ParseYamlFile(filename));
  return LoadExperiment(document);
}

}  // namespace rt
