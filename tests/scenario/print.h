// Events as text for stories: one line each, by RT_FIELDS, without the records' numbers and without
// what is zero or empty.
#pragma once

#include <string>

#include "head/core/core.h"
#include "head/core/desired.h"

namespace rt::scenario {

std::string Print(const Record& record);
std::string Print(const std::vector<DesiredAttempt>& desired);
// Prints the first line that differs from what the story's file expects.
void ExplainDifference(const std::string& path, const std::string& expected,
                       const std::string& real);

}  // namespace rt::scenario
