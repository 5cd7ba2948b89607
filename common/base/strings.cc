#include "common/base/strings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <utility>

namespace rt {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr char kBase64Digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Length of the UTF-8 sequence that starts at `text[0]`, 0 when it is malformed.
size_t Utf8Length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  auto follows = [&](size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return follows(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    if (!follows(1) || !follows(2)) return 0;
    if (lead == 0xe0 && byte(1) < 0xa0) return 0;  // Overlong.
    if (lead == 0xed && byte(1) > 0x9f) return 0;  // A surrogate.
    return 3;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (lead == 0xf0 && byte(1) < 0x90) return 0;
    if (lead == 0xf4 && byte(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

// Of one valid sequence.
uint32_t CodePoint(std::string_view sequence) {
  const unsigned char lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead;
  uint32_t point = lead & (0x7fu >> sequence.size());
  for (char c : sequence.substr(1)) point = point << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  return point;
}

// Beyond ASCII: the C1 controls (U+009B begins a sequence as ESC [ does), line and paragraph
// separators, and the marks that change the direction of the text around them (Unicode TR 36).
bool DrivesTerminal(uint32_t point) {
  return (point >= 0x80 && point <= 0x9f) || point == 0x061c || point == 0x200e ||
         point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069);
}

// Two neighbours that changed places count as one edit (optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, above, row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substitute = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (true) {
    size_t end = text.find(separator, start);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  parts.emplace_back(text.substr(start));
  return parts;
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool StartsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

size_t CountCharacters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), StartsCharacter));
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string ValidUtf8(std::string_view text, size_t bytes_max) {
  std::string valid;
  valid.reserve(std::min(text.size(), bytes_max));
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const std::string_view next = length == 0 ? "\xef\xbf\xbd" : text.substr(0, length);
    if (valid.size() + next.size() > bytes_max) break;
    valid += next;
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return valid;
}

std::string EscapeControl(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const uint32_t point = length == 0 ? 0 : CodePoint(text.substr(0, length));
    if (length > 1 && DrivesTerminal(point)) {
      out += "\\u";
      for (int shift = 12; shift >= 0; shift -= 4) out += kHexDigits[(point >> shift) & 15];
    } else if (length == 0 || point < 0x20 || point == 0x7f) {
      const unsigned char byte = static_cast<unsigned char>(text[0]);
      out += "\\x";
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 15];
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string Excerpt(std::string_view text) {
  constexpr size_t kBytesMax = 60;
  return EscapeControl(ValidUtf8(text, kBytesMax)) + (text.size() > kBytesMax ? "..." : "");
}

std::string ToHex(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (char c : bytes) {
    unsigned char byte = static_cast<unsigned char>(c);
    out += kHexDigits[byte >> 4];
    out += kHexDigits[byte & 15];
  }
  return out;
}

std::optional<std::string> FromHex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    int high = HexValue(text[i]), low = HexValue(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

std::string Base64Encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k)
      out += k <= count ? kBase64Digits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::optional<std::string> Base64Decode(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t group = 0;
  int bits = 0;
  for (char c : text) {
    const char* digit = std::char_traits<char>::find(kBase64Digits, 64, c);
    if (digit == nullptr) return std::nullopt;
    group = group << 6 | static_cast<uint32_t>(digit - kBase64Digits);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out += static_cast<char>(group >> bits & 255);
  }
  return out;
}

std::optional<std::string> NearestWord(std::string_view word,
                                       const std::vector<std::string>& candidates) {
  std::optional<std::string> nearest;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    size_t distance = EditDistance(word, candidate);
    if (distance >= least) continue;
    least = distance;
    nearest = candidate;
  }
  if (nearest.has_value()) return nearest;
  // "experiment" for "exp": a word that goes on after a candidate, or a candidate cut short.
  for (const std::string& candidate : candidates) {
    size_t common = std::min(word.size(), candidate.size());
    if (common >= 3 && word.substr(0, common) == std::string_view(candidate).substr(0, common))
      return candidate;
  }
  return std::nullopt;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> nearest = NearestWord(word, candidates);
  return nearest.has_value() ? "did you mean '" + *nearest + "'?" : "";
}

std::optional<int64_t> ParseBytes(std::string_view text) {
  text = Trim(text);
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || !std::isfinite(value)) return std::nullopt;
  std::string unit(Trim(text.substr(static_cast<size_t>(end - text.data()))));
  static const std::array<std::pair<const char*, double>, 15> kUnits = {
      {{"", 1},        {"B", 1},       {"K", 1e3},       {"KB", 1e3},      {"M", 1e6},
       {"MB", 1e6},    {"G", 1e9},     {"GB", 1e9},      {"T", 1e12},      {"TB", 1e12},
       {"KiB", 1024.}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1.099511627776e12},
       {"Gi", 1 << 30}}};
  for (const auto& [name, scale] : kUnits) {
    if (unit != name) continue;
    double bytes = value * scale;
    if (bytes > 9e18) return std::nullopt;
    return static_cast<int64_t>(bytes);
  }
  return std::nullopt;
}

std::string BytesText(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // What would be written as 1024.0 is one of the next unit.
  for (; std::abs(value) >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char text[48];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

std::optional<double> ParseDurationSeconds(std::string_view text) {
  text = Trim(text);
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    double value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0 || !std::isfinite(value)) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.starts_with("ms")) {
      value /= 1000;
      text.remove_prefix(2);
    } else if (!text.empty()) {
      constexpr std::string_view kUnits = "smhd";
      constexpr double kScales[] = {1, 60, 3600, 86400};
      size_t unit = kUnits.find(text.front());
      if (unit == std::string_view::npos) return std::nullopt;
      value *= kScales[unit];
      text.remove_prefix(1);
    }
    total += value;
  }
  return total;
}

std::string FormatDouble(double value) {
  char text[40];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return std::string(text, error == std::errc() ? end : text);
}

}  // namespace rt
