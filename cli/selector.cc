#include "cli/selector.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

absl::Status Malformed(std::string_view text) {
  return Invalid("'" + std::string(text) + "' selects nothing",
                 "write numbers and ranges such as 3,5-8, or last, or all");
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> SelectNumbers(std::string_view text,
                                                    const std::vector<uint64_t>& known,
                                                    std::string_view noun) {
  std::set<uint64_t> chosen;
  for (const std::string& part : Split(text, ',')) {
    if (part == "all") {
      chosen.insert(known.begin(), known.end());
      continue;
    }
    if (part == "last") {
      if (known.empty()) return NotFound("there is no " + std::string(noun));
      chosen.insert(known.back());
      continue;
    }
    size_t dash = part.find('-');
    std::optional<uint64_t> first = ParseNumber(std::string_view(part).substr(0, dash));
    std::optional<uint64_t> last = first;
    if (dash != std::string::npos) last = ParseNumber(std::string_view(part).substr(dash + 1));
    if (!first.has_value() || !last.has_value() || *last < *first) return Malformed(part);
    bool found = false;
    for (uint64_t number : known) {
      if (number < *first || number > *last) continue;
      chosen.insert(number);
      found = true;
    }
    std::string gap = noun.ends_with('/') ? "" : " ";
    if (!found) return NotFound("there is no " + std::string(noun) + gap + part);
  }
  return std::vector<uint64_t>(chosen.begin(), chosen.end());
}

std::string WithoutKind(std::string_view text, char kind) {
  std::string plain;
  for (const std::string& part : Split(text, ',')) {
    const bool is_id = part.size() > 1 && part[0] == kind && part[1] != '-' &&
                       part.find_first_not_of("0123456789-", 1) == std::string::npos;
    plain += (plain.empty() ? "" : ",") + (is_id ? part.substr(1) : part);
  }
  return plain;
}

bool SelectsMany(std::string_view text) {
  if (text.find(',') != std::string_view::npos) return true;
  for (const std::string& part : Split(text, '/')) {
    const size_t dash = part.find('-');
    if (part == "all") return true;
    if (dash != std::string::npos && ParseNumber(std::string_view(part).substr(0, dash)) &&
        ParseNumber(std::string_view(part).substr(dash + 1)))
      return true;
  }
  return false;
}

std::vector<TrialSelector> SplitTrialSelectors(std::string_view text) {
  std::vector<TrialSelector> selectors;
  for (const std::string& part : Split(text, ',')) {
    size_t slash = part.find('/');
    if (slash != std::string::npos) {
      selectors.push_back({part.substr(0, slash), part.substr(slash + 1)});
    } else if (selectors.empty()) {
      selectors.push_back({"", part});
    } else {
      selectors.back().numbers += "," + part;
    }
  }
  return selectors;
}

}  // namespace rt
