#include "common/base/json.h"

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr size_t kTextBytesMax = 64u << 20;

std::optional<double> SpecialDouble(const std::string& text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

// A key that stands twice in the object, or null. Small objects, which most are, need no set.
const std::string* RepeatedKey(const Json::Object& object) {
  constexpr size_t kSmall = 16;
  if (object.size() <= kSmall) {
    for (size_t i = 1; i < object.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (object[i].first == object[j].first) return &object[i].first;
    return nullptr;
  }
  std::set<std::string_view> seen;
  for (const auto& [key, value] : object)
    if (!seen.insert(key).second) return &key;
  return nullptr;
}

// An escape may stand for half of a surrogate pair, which is no character.
std::string Valid(std::string_view text) {
  return IsValidUtf8(text) ? std::string(text) : ValidUtf8(text);
}

// Receives RapidJSON's events and builds the value on an explicit stack, so that depth costs no
// native stack.
class Builder {
 public:
  bool Null() { return Add(Json()); }
  bool Bool(bool value) { return Add(Json(value)); }
  bool Int(int value) { return Add(Json(value)); }
  bool Uint(unsigned value) { return Add(Json(value)); }
  bool Int64(int64_t value) { return Add(Json(value)); }
  bool Uint64(uint64_t value) {
    if (value > static_cast<uint64_t>(INT64_MAX)) return Add(Json(static_cast<double>(value)));
    return Add(Json(value));
  }
  bool Double(double value) { return Add(Json(value)); }
  // All numbers come so: the library's own conversion reads beyond its table of powers when a
  // fraction of fifty digits has an exponent above 340.
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) {
    const char* end = text + size;
    const bool is_whole = std::all_of(*text == '-' ? text + 1 : text, end,
                                      [](char c) { return c >= '0' && c <= '9'; });
    if (int64_t whole = 0; is_whole && std::from_chars(text, end, whole).ec == std::errc())
      return Int64(whole);
    double value = 0;
    if (std::from_chars(text, end, value).ec == std::errc::result_out_of_range)
      value = std::strtod(text, nullptr);  // Infinite, or next to nothing.
    const bool is_named = text[0] == 'I' || text[0] == 'N' || (size > 1 && text[1] == 'I');
    if (std::isinf(value) && !is_named) {
      problem_ = "the number is too big";
      return false;
    }
    return Double(value);
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    return Add(Json(Valid({text, size})));
  }
  bool StartObject() { return Open(Json(Json::Object())); }
  bool StartArray() { return Open(Json(Json::Array())); }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    keys_.back() = Valid({text, size});
    return true;
  }
  bool EndObject(rapidjson::SizeType) {
    if (const std::string* key = RepeatedKey(stack_.back().object())) {
      problem_ = "duplicate key \"" + EscapeControl(*key) + "\"";
      return false;
    }
    return Close();
  }
  bool EndArray(rapidjson::SizeType) { return Close(); }

  const std::string& problem() const { return problem_; }
  Json Take() { return std::move(root_); }

 private:
  bool Add(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
    } else if (stack_.back().is_object()) {
      stack_.back().object().emplace_back(keys_.back(), std::move(value));
    } else {
      stack_.back().array().push_back(std::move(value));
    }
    return true;
  }
  bool Open(Json container) {
    if (stack_.size() >= static_cast<size_t>(limits::kNestingMax)) {
      problem_ = "nested more than " + std::to_string(limits::kNestingMax) + " levels deep";
      return false;
    }
    stack_.push_back(std::move(container));
    keys_.emplace_back();
    return true;
  }
  bool Close() {
    Json done = std::move(stack_.back());
    stack_.pop_back();
    keys_.pop_back();
    return Add(std::move(done));
  }

  std::vector<Json> stack_;
  std::vector<std::string> keys_;
  Json root_;
  std::string problem_;
};

void WriteString(const std::string& text, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    unsigned char byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (byte < 0x20 || byte == 0x7f) {
          out += "\\u00";
          out += kHex[byte >> 4];
          out += kHex[byte & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void WriteDouble(double value, std::string& out) {
  if (std::isnan(value)) {
    out += "\"NaN\"";
  } else if (std::isinf(value)) {
    out += value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else {
    std::string text = FormatDouble(value);
    out += text;
    if (text.find_first_of(".eE") == std::string::npos) out += ".0";
  }
}

struct Style {
  bool pretty = false;
};

void NewLine(const Style& style, int depth, std::string& out) {
  if (!style.pretty) return;
  out += '\n';
  out.append(static_cast<size_t>(depth) * 2, ' ');
}

void Write(const Json& json, const Style& style, int depth, std::string& out);

void WriteArray(const Json::Array& array, const Style& style, int depth, std::string& out) {
  out += '[';
  bool first = true;
  for (const Json& item : array) {
    if (!first) out += ',';
    first = false;
    NewLine(style, depth + 1, out);
    Write(item, style, depth + 1, out);
  }
  if (!array.empty()) NewLine(style, depth, out);
  out += ']';
}

void WriteObject(const Json::Object& object, const Style& style, int depth, std::string& out) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : object) {
    if (!first) out += ',';
    first = false;
    NewLine(style, depth + 1, out);
    WriteString(key, out);
    out += style.pretty ? ": " : ":";
    Write(value, style, depth + 1, out);
  }
  if (!object.empty()) NewLine(style, depth, out);
  out += '}';
}

void Write(const Json& json, const Style& style, int depth, std::string& out) {
  if (json.is_null()) {
    out += "null";
  } else if (json.is_bool()) {
    out += json.AsBool() ? "true" : "false";
  } else if (json.is_int()) {
    out += std::to_string(json.AsInt());
  } else if (json.is_double()) {
    WriteDouble(json.AsDouble(), out);
  } else if (json.is_string()) {
    WriteString(json.AsString(), out);
  } else if (json.is_array()) {
    WriteArray(json.array(), style, depth, out);
  } else {
    WriteObject(json.object(), style, depth, out);
  }
}

void FlattenInto(const Json::Object& object, const std::string& prefix, Json::Object& out) {
  for (const auto& [key, value] : object) {
    if (value.is_object() && !value.object().empty()) {
      FlattenInto(value.object(), prefix + key + "/", out);
    } else {
      out.emplace_back(prefix + key, value);
    }
  }
}

}  // namespace

double Json::AsDouble() const {
  if (is_int()) return static_cast<double>(AsInt());
  if (is_string()) return SpecialDouble(AsString()).value();
  return std::get<double>(value_);
}

bool Json::HasDouble() const {
  return is_number() || (is_string() && SpecialDouble(AsString()).has_value());
}

const Json* Json::Find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const auto& [name, value] : object())
    if (name == key) return &value;
  return nullptr;
}

Json* Json::Find(std::string_view key) {
  return const_cast<Json*>(static_cast<const Json*>(this)->Find(key));
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  if (Json* found = Find(key)) return *found;
  object().emplace_back(std::string(key), Json());
  return object().back().second;
}

bool Json::Erase(std::string_view key) {
  if (!is_object()) return false;
  return std::erase_if(object(), [&](const Member& member) { return member.first == key; }) > 0;
}

std::string Json::GetString(std::string_view key, std::string_view otherwise) const {
  const Json* found = Find(key);
  return found != nullptr && found->is_string() ? found->AsString() : std::string(otherwise);
}

int64_t Json::GetInt(std::string_view key, int64_t otherwise) const {
  const Json* found = Find(key);
  return found != nullptr && found->is_int() ? found->AsInt() : otherwise;
}

double Json::GetDouble(std::string_view key, double otherwise) const {
  const Json* found = Find(key);
  return found != nullptr && found->HasDouble() ? found->AsDouble() : otherwise;
}

bool Json::GetBool(std::string_view key, bool otherwise) const {
  const Json* found = Find(key);
  return found != nullptr && found->is_bool() ? found->AsBool() : otherwise;
}

void Json::Append(Json value) { array().push_back(std::move(value)); }

std::string Json::Dump() const {
  std::string out;
  Write(*this, Style{}, 0, out);
  return out;
}

std::string Json::Pretty() const {
  std::string out;
  Write(*this, Style{.pretty = true}, 0, out);
  return out;
}

absl::StatusOr<Json> Json::Parse(std::string_view text) {
  if (text.size() > kTextBytesMax) return Invalid("JSON text is longer than 64 MiB");
  constexpr unsigned kFlags =
      rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseNanAndInfFlag |
      rapidjson::kParseValidateEncodingFlag | rapidjson::kParseIterativeFlag;
  rapidjson::MemoryStream stream(text.data(), text.size());
  rapidjson::Reader reader;
  Builder builder;
  rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (!result.IsError()) return builder.Take();
  size_t offset = std::min(result.Offset(), text.size());
  std::string_view before = text.substr(0, offset);
  size_t line_start = before.rfind('\n');
  Position position;
  position.line = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
  position.column = static_cast<int>(
      1 + (line_start == std::string_view::npos ? offset : offset - line_start - 1));
  std::string what =
      builder.problem().empty() ? rapidjson::GetParseError_En(result.Code()) : builder.problem();
  return WithPosition(Invalid("JSON, line " + std::to_string(position.line) + ", column " +
                              std::to_string(position.column) + ": " + what),
                      position);
}

Json Flatten(const Json& object) {
  Json::Object flat;
  if (object.is_object()) FlattenInto(object.object(), "", flat);
  return Json(std::move(flat));
}

namespace {

void AddPaths(const Json& object, const std::string& prefix, std::set<std::string>& paths) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.object()) {
    const std::string path = prefix + key;
    AddPaths(value, path + "/", paths);
    paths.insert(path);
  }
}

}  // namespace

std::set<std::string> FlatPaths(const Json& object) {
  std::set<std::string> paths;
  AddPaths(object, "", paths);
  return paths;
}

const Json* FindFlat(const Json& object, std::string_view path) {
  if (const Json* whole = object.Find(path)) return whole;
  for (size_t slash = path.find('/'); slash != std::string_view::npos;
       slash = path.find('/', slash + 1)) {
    const Json* child = object.Find(path.substr(0, slash));
    if (child == nullptr || !child->is_object()) continue;
    if (const Json* found = FindFlat(*child, path.substr(slash + 1))) return found;
  }
  return nullptr;
}

}  // namespace rt
