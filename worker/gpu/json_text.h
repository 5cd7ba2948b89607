// A text in JSON, for the programs that link nothing of ours. Header only.
#pragma once

#include <string>

namespace rt::worker {

// With its quotes; control characters become spaces.
inline std::string JsonText(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return quoted + "\"";
}
// "" is null.
inline std::string JsonTextOrNull(const std::string& text) {
  return text.empty() ? "null" : JsonText(text);
}

}  // namespace rt::worker
