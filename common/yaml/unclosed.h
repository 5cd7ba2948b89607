// Where a bracket, brace or quote was opened that nothing closes: yaml-cpp only says where the text
// that should have closed it breaks off. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace rt {

struct Unclosed {
  char opener = 0;           // [ { " or '
  int line = 0, column = 0;  // From 1.
};
// The innermost one at the end of `text`, or nullopt. Comments, plain scalars with quotes inside
// and escapes count as in YAML; block scalars are not understood, so this is for texts that the
// parser has refused.
std::optional<Unclosed> FindUnclosed(std::string_view text);

// The quote that opens a scalar, when nothing closes it. `at`: where the scalar begins, or the
// anchor and the tag before it.
std::optional<Unclosed> FindUnclosedQuote(std::string_view text, size_t at);

}  // namespace rt
