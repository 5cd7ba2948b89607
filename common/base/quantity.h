// What people write as a number or as a text with a unit: nothing where it is neither.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/json.h"

namespace rt {

std::optional<int64_t> BytesOf(const Json& value);  // 1024, 1e9, "8GiB"; not negative.
std::optional<double> SecondsOf(const Json& value);  // 90, 0.5, "15m", "1h30m".

}  // namespace rt
