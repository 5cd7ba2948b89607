// Events as text for stories: one line each, by RT_FIELDS, without the records' numbers and without
// what is zero or empty.
#pragma once

#include <string>

#include "head/core/core.h"
#include "head/core/desired.h"

namespace rt::scenario {

std::string Print(const Record& record);
std::string Print(const std::vector<DesiredAttempt>& desired);

}  // namespace rt::scenario
