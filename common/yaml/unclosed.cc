#include "common/yaml/unclosed.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "common/base/strings.h"

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

std::optional<Unclosed> FindUnclosedQuote(std::string_view text, size_t at) {
  while (at < text.size() && (text[at] == '&' || text[at] == '!')) {
    while (at < text.size() && !IsSpace(text[at])) ++at;
    while (at < text.size() && IsSpace(text[at])) ++at;
  }
  const char quote = at < text.size() ? text[at] : '\0';
  if (quote != '"' && quote != '\'') return std::nullopt;
  for (size_t i = at + 1; i < text.size(); ++i) {
    const bool doubled = quote == '\'' && text.substr(i, 2) == "''";
    if (doubled || (quote == '"' && text[i] == '\\')) ++i;
    else if (text[i] == quote) return std::nullopt;
  }
  const std::string_view before = text.substr(0, at);
  const size_t newline = before.rfind('\n');
  const std::string_view line =
      newline == std::string_view::npos ? before : before.substr(newline + 1);
  return Unclosed{quote, static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
                  static_cast<int>(CountCharacters(line)) + 1};
}

}  // namespace rt
