// Structs with RT_FIELDS as JSON and back, for files that a person may read: the members of the
// object have the names that the fields have in the proto. What a file lacks keeps the struct's own
// default, and a member of another type is not read: an earlier or a later release wrote it.
#pragma once

#include <string>

#include "common/base/json.h"
#include "common/wire/wire_fields.h"

namespace rt::codec {

// Calls of itself are qualified: some structs have another form of JSON, for people.
template <class V>
Json ToJson(const V& value) {
  if constexpr (std::same_as<V, std::string> || std::same_as<V, bool> ||
                std::is_floating_point_v<V>) {
    return Json(value);
  } else if constexpr (std::is_enum_v<V>) {
    return Json(static_cast<int64_t>(value));
  } else if constexpr (IsId<V>) {
    return Json(value.value);
  } else if constexpr (IsScalar<V>) {
    return Json(value);
  } else if constexpr (IsMap<V>) {
    Json object = Json::MakeObject();
    for (const auto& [key, mapped] : value) object.Set(key, codec::ToJson(mapped));
    return object;
  } else if constexpr (IsStruct<V>) {
    Json object = Json::MakeObject();
    Shape<V>::Each(value, [&](const char* name, const auto& member) {
      object.Set(WireNameOf<V>(name), codec::ToJson(member));
    });
    return object;
  } else {
    Json array = Json::MakeArray();
    for (const auto& element : value) array.Append(codec::ToJson(element));
    return array;
  }
}

template <class V>
void FromJson(const Json& json, V& value) {
  if constexpr (std::same_as<V, std::string>) {
    if (json.is_string()) value = json.AsString();
  } else if constexpr (std::same_as<V, bool>) {
    if (json.is_bool()) value = json.AsBool();
  } else if constexpr (std::is_floating_point_v<V>) {
    if (json.HasDouble()) value = json.AsDouble();
  } else if constexpr (IsId<V>) {
    if (json.is_int()) value.value = static_cast<uint64_t>(json.AsInt());
  } else if constexpr (IsScalar<V>) {
    if (json.is_int()) value = static_cast<V>(json.AsInt());
  } else if constexpr (IsMap<V>) {
    if (!json.is_object()) return;
    value.clear();
    for (const auto& [key, mapped] : json.object()) codec::FromJson(mapped, value[key]);
  } else if constexpr (IsStruct<V>) {
    if (!json.is_object()) return;
    Shape<V>::Each(value, [&](const char* name, auto& member) {
      if (const Json* found = json.Find(WireNameOf<V>(name))) codec::FromJson(*found, member);
    });
  } else {
    if (!json.is_array()) return;
    value.clear();
    for (const Json& element : json.array()) {
      typename V::value_type one{};
      codec::FromJson(element, one);
      value.insert(value.end(), std::move(one));
    }
  }
}

}  // namespace rt::codec
