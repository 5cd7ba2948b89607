#include "cli/client/selector.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/item_name.h"

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

// The newest item with that name.
std::optional<uint64_t> NumberNamed(const std::string& name, const std::vector<Selectable>& known) {
  const auto named = std::find_if(known.rbegin(), known.rend(),
                                  [&](const Selectable& item) { return item.name == name; });
  return named == known.rend() ? std::nullopt : std::optional(named->number);
}

// "n1" may be the name of one node and the id of another: neither may be taken for the other.
absl::Status CheckOneMeaning(const std::string& part, uint64_t named,
                             const std::vector<Selectable>& known, const SelectorNoun& noun) {
  const std::string numbers = WithoutLetter(part, noun.letter);
  std::set<uint64_t> by_id;
  if (!AddRange(numbers, known, noun, by_id).ok() || by_id == std::set<uint64_t>{named})
    return absl::OkStatus();
  return Invalid("'" + part + "' is the name of " + noun.name + " " + std::to_string(named) +
                     ", and an id of another",
                 "write " + std::to_string(named) + " for the one with that name, or " + numbers);
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
  const std::optional<uint64_t> named = NumberNamed(part, known);
  const std::string numbers = WithoutLetter(part, noun.letter);
  if (named && IsIdOrRange(part))  // Earlier releases took such names.
    return WithHint(AddRange(part, known, noun, chosen), "the " + noun.name + " with the name '" +
                                                             part + "' is " + noun.before +
                                                             std::to_string(*named));
  if (named && numbers != part) RT_RETURN_IF_ERROR(CheckOneMeaning(part, *named, known, noun));
  if (named) {
    chosen.insert(*named);
    return absl::OkStatus();
  }
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
  if (is_name && !ReadsAsIds(text, noun.letter)) {  // It may hold a comma.
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
