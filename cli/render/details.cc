// All that is known of one item: a line per field, long values on lines of their own.
#include <algorithm>

#include "cli/render/nouns.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr size_t kWidthMax = 100;

// Cuts a text into lines of at most `width` bytes, never inside a UTF-8 character.
void AddLines(const std::string& text, size_t width, std::vector<std::string>& lines) {
  for (const std::string& line : Split(text, '\n')) {
    std::string left = EscapeControl(line);
    while (left.size() > width) {
      size_t cut = width;
      while (cut > 1 && (static_cast<unsigned char>(left[cut]) & 0xc0) == 0x80) --cut;
      lines.push_back(left.substr(0, cut));
      left.erase(0, cut);
    }
    lines.push_back(left);
  }
}

std::vector<std::string> LinesOf(const std::string& key, const Json& value, size_t width) {
  std::vector<std::string> lines;
  std::string text = CellText(&value);
  bool nested = text.size() > width;
  if (nested && value.is_object()) {
    for (const auto& [name, inner] : value.object())
      AddLines(name + ": " + CellText(&inner), width, lines);
  } else if (nested && value.is_array()) {
    for (const Json& inner : value.array()) AddLines("- " + CellText(&inner), width, lines);
  } else {
    if (key.ends_with("_at") && value.is_string()) text += " (" + AgeText(&value) + ")";
    AddLines(text, width, lines);
  }
  return lines;
}

}  // namespace

std::string RenderDetails(const Json& item) {
  if (!item.is_object()) return item.Dump() + "\n";
  size_t indent = 0;
  for (const auto& [key, value] : item.object()) indent = std::max(indent, key.size() + 2);
  std::string text;
  for (const auto& [key, value] : item.object()) {
    std::string head = key;
    head.resize(indent, ' ');
    for (const std::string& line : LinesOf(key, value, kWidthMax - indent)) {
      text += head + line;
      text.erase(text.find_last_not_of(' ') + 1);
      text += '\n';
      head.assign(indent, ' ');
    }
  }
  return text;
}

}  // namespace rt
