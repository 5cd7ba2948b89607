#include "common/spec/item_name.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

bool IsIdOrRange(std::string_view text, char letter) {
  if (letter != 0 && text.starts_with(letter)) text.remove_prefix(1);
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return IsNumber(text);
  return IsNumber(text.substr(0, dash)) && IsNumber(text.substr(dash + 1));
}

bool ReadsAsIds(std::string_view text, char letter) {
  const std::vector<std::string> parts = Split(text, ',');
  return std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return part == "last" || part == "all" || IsIdOrRange(part, letter);
  });
}

absl::Status CheckItemName(std::string_view path, std::string_view name, char letter) {
  if (name.starts_with('-') || name.starts_with('.'))
    return SpecError(path, "a name must not begin with '-' or '.'",
                     "begin it with a letter or a digit");
  if (ReadsAsIds(name, letter))
    return SpecError(path, "'" + std::string(name) + "' cannot be a name: commands read it as ids",
                     "choose a name that is not an id, a range of ids, 'last' or 'all'");
  return absl::OkStatus();
}

}  // namespace rt
