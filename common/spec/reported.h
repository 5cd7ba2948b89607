// What trials report, compared with what their search reads: the strict metric rule, and names for
// messages. A row that reports something must have the search's metric (Ray's rule), because early
// stopping and the search see nothing in a row without it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/json.h"
#include "common/spec/experiment_spec.h"

namespace rt {

// True for the counters that every row has (training_iteration, time_total_s): nobody reports them.
bool IsCounter(std::string_view key);

// What is wrong with the row, as a sentence that names what it reports; nullopt: nothing is. A row
// that reports nothing of its own, such as one that only comes with a checkpoint, is accepted, and
// so is a null.
std::optional<std::string> MetricProblem(const RowView& row, std::string_view metric);

// "reported: acc, lss; did you mean 'lss'?" for the `wanted` name that `metrics` does not have.
// Names that rt fills in are left out.
std::string ReportedText(const Json& metrics, std::string_view wanted);

}  // namespace rt
