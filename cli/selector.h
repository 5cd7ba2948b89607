// Which items a person means: "3,5-8", "last", "all"; for trials also "2/0-3" and a bare number for
// the newest experiment. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rt {

// "j3,j5-8" -> "3,5-8" for the kind 'j': ids as `rt logs` takes them. Other texts stay as they are.
std::string WithoutKind(std::string_view text, char kind);

// Whether the selector is one for several, however many there are: all, a range, a list.
bool SelectsMany(std::string_view text);

// Of the ascending `known`, those that `text` selects, ascending and once each. InvalidArgument for
// a malformed selector; NotFound for a single number that is not known.
absl::StatusOr<std::vector<uint64_t>> SelectNumbers(std::string_view text,
                                                    const std::vector<uint64_t>& known,
                                                    std::string_view noun);

// "2/0-3" -> {"2", "0-3"}; "4" -> {"", "4"}; "2/0,3,5/1" -> {"2", "0,3"}, {"5", "1"}.
struct TrialSelector {
  std::string experiment;  // Empty: the newest.
  std::string numbers;
};
std::vector<TrialSelector> SplitTrialSelectors(std::string_view text);

}  // namespace rt
