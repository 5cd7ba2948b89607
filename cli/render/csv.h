// Comma-separated values as RFC 4180 has them, with "\n" as the line's end. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/json.h"

namespace rt {

std::string CsvHeader(const std::vector<std::string>& columns);
// Numbers in full precision, texts as they are, null and what the row lacks as nothing, lists and
// maps as JSON.
std::string CsvRow(const std::vector<std::string>& columns, const Json& row);

}  // namespace rt
