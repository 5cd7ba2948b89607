// How large the items of a page are.
#include "head/view/parts.h"

namespace rt {
namespace {

constexpr size_t kNumberBytes = 20;
constexpr size_t kEscapedBytes = 6;

size_t TextBytesOf(const std::string& text) {
  size_t bytes = text.size() + 3;  // Its quotes, and what separates it from the next one.
  for (const char c : text)
    if (static_cast<unsigned char>(c) < ' ') bytes += kEscapedBytes - 1;
  return bytes;
}

}  // namespace

size_t TextBytesOf(const Json& json) {
  if (json.is_string()) return TextBytesOf(json.AsString());
  size_t bytes = kNumberBytes;
  if (json.is_array())
    for (const Json& item : json.array()) bytes += TextBytesOf(item);
  if (json.is_object())
    for (const auto& [key, value] : json.object()) bytes += TextBytesOf(key) + TextBytesOf(value);
  return bytes;
}

}  // namespace rt
