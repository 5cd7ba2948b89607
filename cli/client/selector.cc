#include "cli/client/selector.h"

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
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "3", "5-8": what is meant as numbers, also when it is malformed ("5-").
bool IsNumeric(std::string_view part) {
  return part.find_first_not_of("0123456789-") == std::string_view::npos;
}

// "j5-8" -> "5-8" for the letter 'j'; other texts stay as they are.
std::string WithoutLetter(const std::string& part, char letter) {
  const bool is_id = letter != 0 && part.size() > 1 && part[0] == letter && part[1] != '-' &&
                     IsNumeric(std::string_view(part).substr(1));
  return is_id ? part.substr(1) : part;
}

absl::Status NoMatch(const std::string& part, const std::vector<Selectable>& known,
                     const SelectorNoun& noun) {
  if (known.empty()) return NotFound("there is no " + noun.name);
  std::vector<std::string> names;
  for (const Selectable& item : known) names.push_back(item.name);
  return NotFound("no " + noun.name + " matches '" + noun.before + part + "'",
                  DidYouMean(part, names));
}

absl::Status AddRange(const std::string& part, const std::vector<Selectable>& known,
                      const SelectorNoun& noun, std::set<uint64_t>& chosen) {
  const size_t dash = part.find('-');
  const std::optional<uint64_t> first = ParseNumber(std::string_view(part).substr(0, dash));
  std::optional<uint64_t> last = first;
  if (dash != std::string::npos) last = ParseNumber(std::string_view(part).substr(dash + 1));
  if (!first.has_value() || !last.has_value() || *last < *first)
    return Invalid("'" + part + "' is not a range of numbers",
                   "write numbers and ranges such as 3,5-8, names, last, or all");
  bool found = false;
  for (const Selectable& item : known) {
    if (item.number < *first || item.number > *last) continue;
    chosen.insert(item.number);
    found = true;
  }
  return found ? absl::OkStatus() : NoMatch(part, known, noun);
}

absl::Status AddPart(const std::string& part, const std::vector<Selectable>& known,
                     const SelectorNoun& noun, std::set<uint64_t>& chosen) {
  if (part.empty())
    return Invalid("a part of the selector is empty", "write 3,5-8, names, last, or all");
  if (part == "all") {
    for (const Selectable& item : known) chosen.insert(item.number);
    return absl::OkStatus();
  }
  if (part == "last") {
    if (known.empty()) return NoMatch(part, known, noun);
    chosen.insert(known.back().number);
    return absl::OkStatus();
  }
  const auto named = std::find_if(known.rbegin(), known.rend(),
                                  [&](const Selectable& item) { return item.name == part; });
  if (named != known.rend()) {
    chosen.insert(named->number);
    return absl::OkStatus();
  }
  const std::string numbers = WithoutLetter(part, noun.letter);
  return IsNumeric(numbers) ? AddRange(numbers, known, noun, chosen) : NoMatch(part, known, noun);
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> SelectNumbers(std::string_view text,
                                                    const std::vector<Selectable>& known,
                                                    const SelectorNoun& noun) {
  std::set<uint64_t> chosen;
  const bool is_name = std::any_of(known.begin(), known.end(), [&](const Selectable& item) {
    return !item.name.empty() && item.name == text;
  });
  if (is_name) {  // It may hold a comma.
    RT_RETURN_IF_ERROR(AddPart(std::string(text), known, noun, chosen));
  } else {
    for (const std::string& part : Split(text, ','))
      RT_RETURN_IF_ERROR(AddPart(part, known, noun, chosen));
  }
  return std::vector<uint64_t>(chosen.begin(), chosen.end());
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
    const size_t slash = part.find('/');
    const std::string plain = WithoutLetter(part, 't');
    if (slash != std::string::npos) {
      selectors.push_back({part.substr(0, slash), part.substr(slash + 1), ""});
    } else if (!IsNumeric(plain) && plain != "last" && plain != "all") {
      selectors.push_back({"", "", part});
    } else if (selectors.empty() || !selectors.back().name.empty()) {
      selectors.push_back({"", plain, ""});
    } else {
      selectors.back().numbers += "," + plain;
    }
  }
  return selectors;
}

}  // namespace rt
