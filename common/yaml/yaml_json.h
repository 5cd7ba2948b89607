// A YAML document as Json, with the place of every value, so that whoever validates the Json can
// point into the user's file. Strict on purpose: 1 MiB, 64 levels, one document, no tags, no
// duplicate keys; aliases are expanded within a bound on the number of values.
// Scalars follow YAML 1.2: true/false, null, integers, floats (1e-4 too); everything else, and
// everything quoted, is a string. Pure but for ReadTextFile.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/base/status.h"

namespace rt {

// Lines and columns count from 1.
struct YamlPlace {
  int key_line = 0, key_column = 0;      // Of the key that introduces it (of the item in a list).
  int value_line = 0, value_column = 0;  // Of a scalar itself; of the key for maps and lists.
  bool is_decimal = true;                // Not a whole number that is written as 0x10 or 0o20.
  bool is_plain = false;                 // A scalar without quotes.
};

struct YamlDocument {
  std::string filename;
  Json value;
  std::map<std::string, YamlPlace> places;  // By path text, "a/b/0"; "" is the whole document.

  // The status with the position of `path`, or of its nearest known ancestor. `at_key` points at
  // the key rather than at the value. A column that the status has counts within the value.
  absl::Status At(const absl::Status& status, std::string_view path, bool at_key = false) const;
};

absl::StatusOr<YamlDocument> ParseYaml(std::string_view text, const std::string& filename);
// Reads at most 1 MiB; NotFound names the file.
absl::StatusOr<YamlDocument> ParseYamlFile(const std::string& filename);

// What a YAML file is for, from its keys.
enum class YamlKind { kCluster, kExperiment, kOther };
YamlKind KindOf(const YamlDocument& document);

}  // namespace rt
