// Reads the normalised form of a spec (journalled_spec.h), member by member. It refuses nothing.
#pragma once

#include <concepts>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json.h"
#include "common/base/strings.h"

namespace rt {

using Warnings = std::vector<std::string>;

// Reads members of one object. A member that is absent, or has another type than this release
// writes, leaves the default as it is. There is a warning for the latter, and for each member that
// was never asked for.
class JournalledReader {
 public:
  JournalledReader(const Json& json, std::string path, std::vector<std::string>& warnings)
      : json_(json), path_(std::move(path)), warnings_(warnings) {
    if (!json.is_object()) Warn("", "is not a map");
  }
  JournalledReader(const JournalledReader&) = delete;
  ~JournalledReader() {  // NOLINT(bugprone-exception-escape): where memory is lacking
    if (!json_.is_object()) return;
    for (const auto& [key, value] : json_.object())
      if (!asked_.contains(key)) Warn(key, "is not known to this release");
  }

  void Warn(const std::string& key, const std::string& why) {
    const std::string where = key.empty() || path_.empty() ? path_ + key : path_ + "/" + key;
    warnings_.push_back(EscapeControl(where) + ": " + why + "; it is ignored");
  }
  // Null when it is absent, or null itself.
  const Json* Find(const std::string& key) {
    asked_.insert(key);
    const Json* value = json_.Find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  void Read(const std::string& key, std::string& out) {
    if (const Json* value = Find(key); value != nullptr && value->is_string())
      out = value->AsString();
    else if (value != nullptr) Warn(key, "is not text");
  }
  void Read(const std::string& key, bool& out) {
    if (const Json* value = Find(key); value != nullptr && value->is_bool()) out = value->AsBool();
    else if (value != nullptr) Warn(key, "is neither true nor false");
  }
  void Read(const std::string& key, double& out) {
    if (const Json* value = Find(key); value != nullptr && value->HasDouble())
      out = value->AsDouble();
    else if (value != nullptr) Warn(key, "is not a number");
  }
  template <std::integral T>
  void Read(const std::string& key, T& out) {
    if (const Json* value = Find(key); value != nullptr && value->is_int())
      out = static_cast<T>(value->AsInt());
    else if (value != nullptr) Warn(key, "is not a whole number");
  }
  // One of a few names.
  template <class T, class Names>
  void ReadName(const std::string& key, const Names& all, T& out, auto&& name_of) {
    std::string name = name_of(out);
    Read(key, name);
    for (T one : all)
      if (name == name_of(one)) {
        out = one;
        return;
      }
    Warn(key, "is not known to this release: '" + name + "'");
  }
  // An empty list when it is absent or no list.
  const Json::Array& List(const std::string& key) {
    static const Json::Array none;
    const Json* value = Find(key);
    if (value != nullptr && value->is_array()) return value->array();
    if (value != nullptr) Warn(key, "is not a list");
    return none;
  }
  const Json::Object& Map(const std::string& key) {
    static const Json::Object none;
    const Json* value = Find(key);
    if (value != nullptr && value->is_object()) return value->object();
    if (value != nullptr) Warn(key, "is not a map");
    return none;
  }
  void Read(const std::string& key, std::map<std::string, std::string>& out) {
    for (const auto& [name, value] : Map(key))
      if (value.is_string()) out[name] = value.AsString();
      else Warn(Join({key, name}, "/"), "is not text");
  }
  std::string Below(const std::string& key) const {
    return path_.empty() ? key : path_ + "/" + key;
  }

 private:
  const Json& json_;
  std::string path_;
  std::vector<std::string>& warnings_;
  std::set<std::string> asked_;
};

}  // namespace rt
