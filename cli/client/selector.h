// Which items a person means: "3,5-8", "last", "all" and names, in any mixture; for trials also
// "2/0-3", "demo/all", and a bare number for the newest experiment. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rt {

// An item that a selector can select.
struct Selectable {
  uint64_t number = 0;
  std::string name;
};

// Whether the selector is one for several, however many there are: all, a range, a list.
bool SelectsMany(std::string_view text);

// The noun of a selector's items, for messages: "experiment".
struct SelectorNoun {
  std::string name;
  char letter = 0;     // "j3" means the number 3 where this is 'j'.
  std::string before;  // What stands before a number: "3/" of a trial.
};
// Those of `known` that `text` selects, ascending and once each. A part that reads as a number or a
// range is one, whatever the names are; any other name means the newest item with that name.
// InvalidArgument for a malformed range, and for a part such as "n1" that is the name of one item
// and the id of another; NotFound, with a suggestion, for a part that matches nothing.
absl::StatusOr<std::vector<uint64_t>> SelectNumbers(std::string_view text,
                                                    const std::vector<Selectable>& known,
                                                    const SelectorNoun& noun);

// "2/0-3" -> {"2", "0-3"}; "4" -> {"", "4"}; "2/0,3,5/1" -> {"2", "0,3"}, {"5", "1"}; a name
// without a slash is that of a trial in any experiment.
struct TrialSelector {
  std::string experiment;  // Empty: the newest.
  std::string numbers;
  std::string name;  // Not empty: of one trial, in place of the others.
};
std::vector<TrialSelector> SplitTrialSelectors(std::string_view text);

}  // namespace rt
