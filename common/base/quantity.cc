#include "common/base/quantity.h"

#include "common/base/strings.h"

namespace rt {

std::optional<int64_t> BytesOf(const Json& value) {
  if (value.is_string()) return ParseBytes(value.AsString());
  if (value.is_int() && value.AsInt() >= 0) return value.AsInt();
  const bool is_some = value.is_double() && value.AsDouble() >= 0 && value.AsDouble() < 9e18;
  return is_some ? std::optional(static_cast<int64_t>(value.AsDouble())) : std::nullopt;
}

std::optional<double> SecondsOf(const Json& value) {
  if (value.is_string()) return ParseDurationSeconds(value.AsString());
  return value.is_number() ? std::optional(value.AsDouble()) : std::nullopt;
}

}  // namespace rt
