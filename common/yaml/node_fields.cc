#include "common/yaml/node_fields.h"

#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {

std::string Below(std::string path, std::string_view key) {
  path += '/';
  path += key;
  return path;
}

std::string NodeFlag(const Resources& resources, bool says_cpu) {
  std::string flag = ToFlag(resources);
  if (says_cpu || !flag.starts_with("cpu=")) return flag;
  const size_t comma = flag.find(',');
  return comma == std::string::npos ? "" : flag.substr(comma + 1);
}

absl::StatusOr<std::string> ReadNodeResources(const YamlDocument& document, const Json* resources,
                                              const std::string& path) {
  if (resources == nullptr || resources->is_null()) return std::string();
  if (resources->is_object() && resources->object().empty()) return std::string();
  absl::StatusOr<Resources> parsed = ParseResources(*resources, path);
  if (!parsed.ok()) {
    const std::string where = PositionOf(parsed.status()).file;
    return document.At(parsed.status(), where.empty() ? path : where);
  }
  const bool says_cpu = resources->Find("cpu") != nullptr || resources->Find("CPU") != nullptr;
  return NodeFlag(*parsed, says_cpu);
}

absl::StatusOr<std::string> ReadNodeLabels(const YamlDocument& document, const Json* labels,
                                           const std::string& path) {
  if (labels == nullptr || labels->is_null()) return std::string();
  if (!labels->is_object()) return document.At(Invalid("labels must be a map of texts"), path);
  std::vector<std::string> pairs;
  for (const auto& [key, value] : labels->object()) {
    const std::string text = value.is_string() ? value.AsString() : value.Dump();
    if (key.find_first_of("=,") != std::string::npos || text.find(',') != std::string::npos ||
        value.is_array() || value.is_object())
      return document.At(Invalid("a label is a text without ',', and its key is also without '='"),
                         Below(path, key));
    pairs.push_back(key);
    pairs.back() += '=';
    pairs.back() += text;
  }
  return Join(pairs, ",");
}

absl::StatusOr<std::vector<std::string>> ReadCommands(const YamlDocument& document,
                                                      const Json* commands,
                                                      const std::string& path) {
  std::vector<std::string> list;
  if (commands == nullptr || commands->is_null()) return list;
  if (!commands->is_array())
    return document.At(
        Invalid(path.substr(path.rfind('/') + 1) + " must be a list of shell commands"), path);
  for (size_t i = 0; i < commands->array().size(); ++i) {
    const Json& command = commands->array()[i];
    const std::string item = path + "/" + std::to_string(i);
    if (!command.is_string())
      return document.At(Invalid("a command must be a text", "quote it"), item);
    if (command.AsString().find('\0') != std::string::npos)
      return document.At(Invalid("a command holds a NUL"), item);
    list.push_back(command.AsString());
  }
  return list;
}

}  // namespace rt
