#include "cli/render/spans.h"

#include <cstdio>

#include "common/base/strings.h"

namespace rt {
namespace {

const char* CodeOf(Ink ink) {
  switch (ink) {
    case Ink::kPlain:
      return "";
    case Ink::kBold:
      return "\x1b[1m";
    case Ink::kFaint:
      return "\x1b[2m";
    case Ink::kRed:
      return "\x1b[31m";
    case Ink::kGreen:
      return "\x1b[32m";
    case Ink::kYellow:
      return "\x1b[33m";
  }
  return "";
}

std::string Cut(const std::string& text, size_t characters) {
  std::string cut;
  size_t count = 0;
  for (char c : text) {
    if (StartsCharacter(c) && ++count > characters) break;
    cut += c;
  }
  return cut;
}

}  // namespace

std::string RenderSpans(const Spans& spans, size_t width, bool color) {
  size_t whole = 0;
  for (const Span& span : spans) whole += CountCharacters(EscapeControl(span.text));
  const bool cut = whole > width;
  size_t left = cut && width > 0 ? width - 1 : width;
  std::string line;
  for (const Span& span : spans) {
    std::string text = Cut(EscapeControl(span.text), left);
    left -= CountCharacters(text);
    bool inked = color && span.ink != Ink::kPlain && !text.empty();
    line += inked ? Inked(text, span.ink) : text;
  }
  if (cut) return line + "…";
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

std::string Inked(const std::string& text, Ink ink) { return CodeOf(ink) + text + "\x1b[0m"; }

Ink InkOfState(const std::string& state) {
  if (state == "FAILED" || state == "LOST") return Ink::kRed;
  if (state == "COMPLETED" || state == "SUCCEEDED" || state == "READY" || state == "RUNNING")
    return Ink::kGreen;
  return Ink::kYellow;
}

size_t VisibleWidth(const std::string& line) {
  size_t width = 0;
  bool escape = false;
  for (char c : line) {
    if (c == '\x1b') escape = true;
    if (!escape && StartsCharacter(c)) ++width;
    if (c == 'm') escape = false;
  }
  return width;
}

std::string Counted(size_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string DurationText(double seconds) {
  char text[32];
  long whole = static_cast<long>(seconds > 0 ? seconds + 0.5 : 0);
  if (whole < 60) std::snprintf(text, sizeof text, "%lds", whole);
  else if (whole < 3600) std::snprintf(text, sizeof text, "%ldm %02lds", whole / 60, whole % 60);
  else if (whole < 86400)
    std::snprintf(text, sizeof text, "%ldh %02ldm", whole / 3600, whole / 60 % 60);
  else std::snprintf(text, sizeof text, "%ldd %02ldh", whole / 86400, whole / 3600 % 24);
  return text;
}

}  // namespace rt
