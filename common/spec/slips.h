// Slips of the pen: specs that could be read as they stand, but that hardly anybody means. They are
// checked where a person's text enters (the client, and Step), never where a journal is replayed.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/base/json.h"

namespace rt {

// InvalidArgument for a map of one key that resembles a distribution's name and holds a list, such
// as {loguniorm: [1e-4, 1e-1]}: the space would take it for a constant. {constant: …} escapes.
absl::Status CheckSpaceNames(const Json& space, std::string_view path);
// The same, and what else an experiment YAML should not say: a text such as "uniform(0, 1)" where a
// distribution belongs, a mode without a metric, a name that reads as an id.
absl::Status CheckWritten(const Json& spec);

// What is taken as it is written and may be meant otherwise, for the client to print.
struct SpecNote {
  std::string path;  // "space/lr"
  std::string text;  // Names the parameter.
};
std::vector<SpecNote> NotesOf(const Json& spec);

// "did you mean 'cpu'?" for the name of a resource that no node has; "" when it resembles none.
std::string ResourceHint(std::string_view name);

}  // namespace rt
