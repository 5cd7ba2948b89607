// Any text as a cluster's or an experiment's YAML: an error with its place, or a spec.
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/yaml/cluster_spec.h"
#include "common/yaml/experiment_file.h"
#include "common/yaml/yaml_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto document = rt::ParseYaml(text, "fuzz.yaml");
  if (!document.ok()) {
    RT_CHECK(!rt::MessageOf(document.status()).empty());
    return 0;
  }
  auto experiment = rt::LoadExperiment(*document);
  if (experiment.ok()) {
    // What a client accepted the head accepts as well, with the same meaning.
    auto again = rt::Json::Parse(experiment->json.Dump());
    RT_CHECK(again.ok());
    RT_CHECK(rt::ParseExperimentSpec(*again).ok());
  } else {
    RT_CHECK(!rt::MessageOf(experiment.status()).empty());
  }
  auto cluster = rt::LoadCluster(*document);
  if (!cluster.ok()) RT_CHECK(!rt::MessageOf(cluster.status()).empty());
  return 0;
}
