// What a helper program said, as a reason quotes it.
#pragma once

#include <string>
#include <string_view>

#include "common/base/strings.h"

namespace rt::worker {

// The first 300 bytes, and nothing that would drive a terminal.
inline std::string Quoted(std::string_view text) {
  constexpr size_t kBytesMax = 300;
  return EscapeControl(ValidUtf8(text, kBytesMax)) + (text.size() > kBytesMax ? "..." : "");
}

}  // namespace rt::worker
