// Trials of one experiment as a table with a column per parameter, and in the order that a user
// wants. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/json.h"

namespace rt {

// Columns for the parameters that differ among the trials (all of them when none does) and for the
// newest value of `metric`; without a metric, for all that was reported last. What has no column is
// named below the table.
std::string RenderTrials(const std::vector<Json>& trials, const std::string& metric, bool color);
// Sorts by a field of the list, a parameter or a metric; "-lr" puts the greatest first. Trials
// without a value come last. InvalidArgument when no trial has such a value.
absl::Status SortTrials(const std::string& key, std::vector<Json>& trials);

}  // namespace rt
