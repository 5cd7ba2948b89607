// What the hosts and the node types of a cluster's file have in common: resources, labels and
// commands. Errors are InvalidArgument with the position in the file. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/spec/resources.h"
#include "common/yaml/yaml_json.h"

namespace rt {

// The path of a key below another one: "a/b".
std::string Below(std::string path, std::string_view key);

// As rt-worker's --resources takes it. The worker takes what is left out from its machine, so cpus
// that are not said are left out.
std::string NodeFlag(const Resources& resources, bool says_cpu);
// The same of a map such as {CPU: 2, GPU: 1}; empty when it is null or empty.
absl::StatusOr<std::string> ReadNodeResources(const YamlDocument& document, const Json* resources,
                                              const std::string& path);
// As --labels takes them: "k=v,…"; empty when there are none.
absl::StatusOr<std::string> ReadNodeLabels(const YamlDocument& document, const Json* labels,
                                           const std::string& path);
// A list of shell commands; empty when it is null.
absl::StatusOr<std::vector<std::string>> ReadCommands(const YamlDocument& document,
                                                      const Json* commands,
                                                      const std::string& path);

}  // namespace rt
