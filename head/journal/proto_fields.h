// Structs with RT_FIELDS to protobuf messages of the same names and back, by reflection. A struct's
// fields are looked up once by name; a name that the proto lacks ends the process (and a test, long
// before). Ids become integers, enums their numbers, maps and sets what their elements become.
#pragma once

#include <concepts>
#include <string>
#include <type_traits>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "common/base/check.h"
#include "common/base/fields.h"
#include "common/base/ids.h"

namespace rt::store_codec {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// The message of that name in rt.store; must exist.
const Descriptor& DescriptorOf(const char* type_name);
// `text` if it is UTF-8, otherwise with '?' for every byte beyond ASCII: a proto string that is not
// UTF-8 could not be read back.
std::string ValidText(const std::string& text);

// The name and the fields of a struct; the ids of common/base have no RT_FIELDS of their own.
template <class T>
struct Shape {
  static const char* Name() { return T::kTypeName; }
  template <class Self, class Visit>
  static void Each(Self& self, Visit&& visit) {
    ForEachField(self, visit);
  }
};
template <>
struct Shape<TrialId> {
  static const char* Name() { return "TrialId"; }
  template <class Self, class Visit>
  static void Each(Self& self, Visit&& visit) {
    visit("experiment", self.experiment);
    visit("number", self.number);
  }
};
template <>
struct Shape<Owner> {
  static const char* Name() { return "Owner"; }
  template <class Self, class Visit>
  static void Each(Self& self, Visit&& visit) {
    visit("kind", self.kind);
    visit("group", self.group);
    visit("number", self.number);
  }
};
template <>
struct Shape<AttemptId> {
  static const char* Name() { return "AttemptId"; }
  template <class Self, class Visit>
  static void Each(Self& self, Visit&& visit) {
    visit("owner", self.owner);
    visit("number", self.number);
    visit("generation", self.generation);
  }
};

template <class T>
concept IsStruct = HasFields<T> || std::same_as<T, TrialId> || std::same_as<T, Owner> ||
                   std::same_as<T, AttemptId>;
template <class T>
concept IsId = requires { typename std::type_identity_t<decltype(T::value)>; } && !IsStruct<T> &&
               sizeof(T) == sizeof(uint64_t) && std::is_aggregate_v<T>;
template <class T>
concept IsMap = requires { typename T::mapped_type; };

// The descriptors of T's fields in the order of its list.
template <IsStruct T>
const std::vector<const FieldDescriptor*>& FieldsOf() {
  static const std::vector<const FieldDescriptor*> fields = [] {
    std::vector<const FieldDescriptor*> found;
    const Descriptor& descriptor = DescriptorOf(Shape<T>::Name());
    T sample{};
    Shape<T>::Each(sample, [&](const char* name, const auto&) {
      const FieldDescriptor* field = descriptor.FindFieldByName(name);
      RT_CHECK_BECAUSE(field != nullptr, name);
      found.push_back(field);
    });
    return found;
  }();
  return fields;
}

template <IsStruct T>
void EncodeInto(Message& message, const T& value);
template <IsStruct T>
void DecodeFrom(const Message& message, T& value);

// Sets a singular field or adds to a repeated one.
template <class V>
void Put(Message& message, const FieldDescriptor* field, const V& value) {
  const Reflection& access = *message.GetReflection();
  const bool many = field->is_repeated();
  if constexpr (std::same_as<V, bool>) {
    many ? access.AddBool(&message, field, value) : access.SetBool(&message, field, value);
  } else if constexpr (std::same_as<V, std::string>) {
    std::string text = field->type() == FieldDescriptor::TYPE_STRING ? ValidText(value) : value;
    many ? access.AddString(&message, field, std::move(text))
         : access.SetString(&message, field, std::move(text));
  } else if constexpr (std::is_enum_v<V>) {
    Put(message, field, static_cast<uint32_t>(value));
  } else if constexpr (std::same_as<V, uint32_t>) {
    many ? access.AddUInt32(&message, field, value) : access.SetUInt32(&message, field, value);
  } else if constexpr (std::same_as<V, int32_t>) {
    many ? access.AddInt32(&message, field, value) : access.SetInt32(&message, field, value);
  } else if constexpr (std::same_as<V, uint64_t>) {
    many ? access.AddUInt64(&message, field, value) : access.SetUInt64(&message, field, value);
  } else if constexpr (std::same_as<V, int64_t>) {
    many ? access.AddInt64(&message, field, value) : access.SetInt64(&message, field, value);
  } else if constexpr (std::same_as<V, double>) {
    many ? access.AddDouble(&message, field, value) : access.SetDouble(&message, field, value);
  } else if constexpr (IsStruct<V>) {
    EncodeInto(many ? *access.AddMessage(&message, field) : *access.MutableMessage(&message, field),
               value);
  } else if constexpr (IsId<V>) {
    Put(message, field, value.value);
  } else if constexpr (IsMap<V>) {
    for (const auto& [key, mapped] : value) {
      Message& entry = *access.AddMessage(&message, field);
      Put(entry, field->message_type()->map_key(), key);
      Put(entry, field->message_type()->map_value(), mapped);
    }
  } else {
    for (const auto& element : value) Put(message, field, element);
  }
}

// Reads a singular field, or the element `at` of a repeated one.
template <class V>
void Get(const Message& message, const FieldDescriptor* field, int at, V& value) {
  const Reflection& access = *message.GetReflection();
  const bool many = field->is_repeated();
  if constexpr (std::same_as<V, bool>) {
    value = many ? access.GetRepeatedBool(message, field, at) : access.GetBool(message, field);
  } else if constexpr (std::same_as<V, std::string>) {
    value = many ? access.GetRepeatedString(message, field, at) : access.GetString(message, field);
  } else if constexpr (std::is_enum_v<V>) {
    uint32_t number = 0;
    Get(message, field, at, number);
    value = static_cast<V>(number);
  } else if constexpr (std::same_as<V, uint32_t>) {
    value = many ? access.GetRepeatedUInt32(message, field, at) : access.GetUInt32(message, field);
  } else if constexpr (std::same_as<V, int32_t>) {
    value = many ? access.GetRepeatedInt32(message, field, at) : access.GetInt32(message, field);
  } else if constexpr (std::same_as<V, uint64_t>) {
    value = many ? access.GetRepeatedUInt64(message, field, at) : access.GetUInt64(message, field);
  } else if constexpr (std::same_as<V, int64_t>) {
    value = many ? access.GetRepeatedInt64(message, field, at) : access.GetInt64(message, field);
  } else if constexpr (std::same_as<V, double>) {
    value = many ? access.GetRepeatedDouble(message, field, at) : access.GetDouble(message, field);
  } else if constexpr (IsStruct<V>) {
    DecodeFrom(many ? access.GetRepeatedMessage(message, field, at)
                    : access.GetMessage(message, field), value);
  } else if constexpr (IsId<V>) {
    Get(message, field, at, value.value);
  } else if constexpr (IsMap<V>) {
    value.clear();
    for (int i = 0; i < access.FieldSize(message, field); ++i) {
      const Message& entry = access.GetRepeatedMessage(message, field, i);
      typename V::key_type key{};
      Get(entry, field->message_type()->map_key(), 0, key);
      Get(entry, field->message_type()->map_value(), 0, value[key]);
    }
  } else {
    value.clear();
    for (int i = 0; i < access.FieldSize(message, field); ++i) {
      typename V::value_type element{};
      Get(message, field, i, element);
      value.insert(value.end(), std::move(element));
    }
  }
}

template <IsStruct T>
void EncodeInto(Message& message, const T& value) {
  auto field = FieldsOf<T>().begin();
  Shape<T>::Each(value, [&](const char*, const auto& member) { Put(message, *field++, member); });
}

template <IsStruct T>
void DecodeFrom(const Message& message, T& value) {
  auto field = FieldsOf<T>().begin();
  Shape<T>::Each(value, [&](const char*, auto& member) { Get(message, *field++, 0, member); });
}

}  // namespace rt::store_codec
