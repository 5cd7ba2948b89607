// Small string functions without a home elsewhere.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rt {

std::vector<std::string> Split(std::string_view text, char separator);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view Trim(std::string_view text);
bool IsValidUtf8(std::string_view text);
// Whether the byte begins a character of valid UTF-8; and how many of these a text has.
bool StartsCharacter(char byte);
size_t CountCharacters(std::string_view text);
// The first `bytes_max` bytes, or up to 3 less, so that no character is cut in two; each byte that
// belongs to none is U+FFFD. A proto string that is no UTF-8 cannot be sent.
std::string ValidUtf8(std::string_view text, size_t bytes_max = std::string_view::npos);
// For text of other people that reaches a terminal or a log: control characters (also ESC) and
// bytes that are no UTF-8 become \xNN; C1 controls and characters that change the direction of the
// text become \uNNNN. Nothing in the result can drive a terminal or show a line as another one.
std::string EscapeControl(std::string_view text);
// The same for a value that a message quotes: of a long one the first 60 bytes and "...".
std::string Excerpt(std::string_view text);
std::string ToHex(std::string_view bytes);
std::optional<std::string> FromHex(std::string_view text);
std::string Base64Encode(std::string_view bytes);
std::optional<std::string> Base64Decode(std::string_view text);

// The candidate nearest to `word` by edit distance, if it is near enough to be a slip of the pen.
std::optional<std::string> NearestWord(std::string_view word,
                                       const std::vector<std::string>& candidates);
// " did you mean 'x'?" or "".
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

// "8GiB", "512MB", "1024": bytes. nullopt when malformed or negative.
std::optional<int64_t> ParseBytes(std::string_view text);
// "8.0 GiB", "512.0 MiB", "17 B": for people.
std::string BytesText(int64_t bytes);
// Seconds as "90", "90s", "15m", "1h30m", "2d". nullopt when malformed.
std::optional<double> ParseDurationSeconds(std::string_view text);
// The shortest decimal text that reads back as the same double.
std::string FormatDouble(double value);

}  // namespace rt
