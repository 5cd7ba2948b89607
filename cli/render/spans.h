// Pieces of one line with their inks, cut to the width of a screen. Pure.
#pragma once

#include <string>
#include <vector>

namespace rt {

enum class Ink { kPlain, kBold, kFaint, kRed, kGreen, kYellow };
struct Span {
  std::string text;
  Ink ink = Ink::kPlain;
};
using Spans = std::vector<Span>;

// At most `width` characters, the last of them "…" when something was cut. Control characters are
// escaped; the only escape sequences are those of the inks, and none without `color`.
std::string RenderSpans(const Spans& spans, size_t width, bool color);
size_t VisibleWidth(const std::string& line);  // Characters, without the sequences of the inks.
// The text with the sequences of its ink around it.
std::string Inked(const std::string& text, Ink ink);
// Of a state of any noun: red for what failed, green for what goes well or went well.
Ink InkOfState(const std::string& state);
// "1 worker", "3 workers".
std::string Counted(size_t count, const char* one, const char* many);
// "8s", "3m 05s", "2h 10m", "4d 02h".
std::string DurationText(double seconds);

}  // namespace rt
