// Time as the pure parts see it: milliseconds since the Unix epoch, always an argument.
#pragma once

#include <cstdint>
#include <string>

namespace rt {

using Millis = int64_t;  // Since 1970-01-01 UTC, or a span; names say which ("_at", "_for").
using Bytes = int64_t;

// "2026-11-21T12:30:41.123Z"; the empty string for 0, which means "not yet".
std::string FormatTime(Millis at);
double ToSeconds(Millis span);

}  // namespace rt
