#include "common/yaml/unclosed.h"

#include <cctype>
#include <vector>

namespace rt {
namespace {

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::optional<Unclosed> FindUnclosed(std::string_view text) {
  std::vector<Unclosed> open;
  int line = 1, column = 0;
  char before = '\n';  // The last character that is no space within its line.
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) ++column;
    const char quote = open.empty() ? '\0' : open.back().opener;
    if (quote == '"' || quote == '\'') {
      const bool escapes = c == '\\' && quote == '"' && i + 1 < text.size() && text[i + 1] != '\n';
      if (c == quote) open.pop_back();
      if (escapes) ++i, ++column;
    } else if (c == '#' && (i == 0 || IsSpace(text[i - 1]))) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if ((c == ']' || c == '}') && !open.empty()) {
      open.pop_back();
    } else if (c == '[' || c == '{' || c == '"' || c == '\'') {
      // Inside a plain scalar of the block style they are text.
      const bool starts = before == '\n' || before == ':' || before == '-' || before == ',' ||
                          before == '[' || before == '{' || before == '?';
      if (starts) open.push_back({c, line, column});
    }
    if (c == '\n') {
      ++line;
      column = 0;
    }
    if (!IsSpace(c) || c == '\n') before = c;
  }
  return open.empty() ? std::nullopt : std::optional<Unclosed>(open.back());
}

}  // namespace rt
