// A JSON value: what configurations, metrics and read models are made of. Objects keep the order in
// which keys were added. Whole numbers and floats are told apart ("1" and "1.0" differ). NaN and
// infinities are written as the strings "NaN", "Infinity", "-Infinity" and read in both spellings.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace rt {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() : value_(nullptr) {}
  Json(std::nullptr_t) : value_(nullptr) {}  // NOLINT(google-explicit-constructor)
  Json(bool value) : value_(value) {}        // NOLINT(google-explicit-constructor)
  Json(double value) : value_(value) {}      // NOLINT(google-explicit-constructor)
  Json(const char* value) : value_(std::string(value)) {}       // NOLINT
  Json(std::string value) : value_(std::move(value)) {}         // NOLINT
  Json(std::string_view value) : value_(std::string(value)) {}  // NOLINT
  Json(Array value) : value_(std::move(value)) {}               // NOLINT
  Json(Object value) : value_(std::move(value)) {}              // NOLINT
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  Json(T value) : value_(static_cast<int64_t>(value)) {}  // NOLINT
  static Json MakeObject(std::initializer_list<Member> members = {}) {
    return Json(Object(members));
  }
  static Json MakeArray() { return Json(Array()); }

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // Each of these checks its type: ask first.
  bool AsBool() const { return std::get<bool>(value_); }
  int64_t AsInt() const { return std::get<int64_t>(value_); }
  double AsDouble() const;  // Of any number, and of "NaN", "Infinity", "-Infinity".
  bool HasDouble() const;   // Whether AsDouble answers.
  const std::string& AsString() const { return std::get<std::string>(value_); }
  const Array& array() const { return std::get<Array>(value_); }
  Array& array() { return std::get<Array>(value_); }
  const Object& object() const { return std::get<Object>(value_); }
  Object& object() { return std::get<Object>(value_); }

  // Null when this is not an object or has no such key.
  const Json* Find(std::string_view key) const;
  Json* Find(std::string_view key);
  // The member, added as null when it is absent. This must be an object, or null (becomes one).
  Json& operator[](std::string_view key);
  void Set(std::string_view key, Json value) { (*this)[key] = std::move(value); }
  bool Erase(std::string_view key);
  void Append(Json value);
  // Forgiving reads for messages whose shape was checked elsewhere: the default when absent or of
  // another type.
  std::string GetString(std::string_view key, std::string_view otherwise = "") const;
  int64_t GetInt(std::string_view key, int64_t otherwise = 0) const;
  double GetDouble(std::string_view key, double otherwise = 0) const;
  bool GetBool(std::string_view key, bool otherwise = false) const;

  // Compact text on one line, valid UTF-8. `Pretty` indents by two spaces.
  std::string Dump() const;
  std::string Pretty() const;
  // At most 64 levels deep and 64 MiB long; a duplicate key is an error that names it. The error
  // says line and column.
  static absl::StatusOr<Json> Parse(std::string_view text);

  friend bool operator==(const Json&, const Json&) = default;

 private:
  std::variant<std::nullptr_t, bool, int64_t, double, std::string, Array, Object> value_;
};

// "a/b/c": nested objects become one flat object with keys joined by '/', arrays stay whole.
Json Flatten(const Json& object);
// The number under a flattened key ("train/loss"), if there is one.
const Json* FindFlat(const Json& object, std::string_view path);
// Every path under which FindFlat finds something.
std::set<std::string> FlatPaths(const Json& object);

}  // namespace rt
