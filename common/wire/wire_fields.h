// Structs with RT_FIELDS to the bytes of the protobuf messages of the same names and back: the
// journal's records, and what the head and a worker exchange of a launch. The proto gives each
// field's number and type, looked up once by name; a name that it lacks, or another type, ends the
// process (and a test, long before). No message object is made in between: a start decodes a
// million records. Ids become integers, enums their numbers, maps and sets what their elements
// become. An absent field is zero, whatever the struct's own default. A field whose name in the
// proto is another one is listed in the struct's kWireNames.
//
// A Schema says where the messages are: static const Descriptor* Find(const char* message).
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "common/wire/shape.h"
#include "common/wire/wire.h"

namespace google::protobuf {
class Descriptor;
}

namespace rt::codec {

using FindMessage = const google::protobuf::Descriptor* (*)(const char* message);
template <class T>
const char* WireNameOf(const char* field) {
  if constexpr (requires { T::kWireNames; })
    for (const FieldAlias& name : T::kWireNames)
      if (std::strcmp(name.field, field) == 0) return name.in_proto;
  return field;
}

// What a C++ type must be in the proto.
enum class ProtoType { kBool, kText, kUint32, kInt32, kUint64, kInt64, kDouble, kMessage };

struct FieldPlan {
  uint32_t number = 0;
  bool is_utf8 = false;  // A string rather than bytes.
};
// The field of that name in the message; `of` names the element's message or is null.
FieldPlan PlanField(FindMessage find, const char* message, const char* field, ProtoType type,
                    const char* of, bool is_list, bool is_map);
// `text`, made UTF-8 where it is not: a proto string that is not UTF-8 could not be read back by
// other readers.
std::string ValidText(const std::string& text);

template <class V>
concept IsScalar = std::is_arithmetic_v<V> || std::is_enum_v<V> || IsId<V>;
template <class V>
concept IsList = !IsScalar<V> && !IsStruct<V> && !IsMap<V> && !std::same_as<V, std::string>;

template <class V>
constexpr ProtoType TypeOf() {
  if constexpr (std::same_as<V, bool>) return ProtoType::kBool;
  else if constexpr (std::same_as<V, std::string>) return ProtoType::kText;
  else if constexpr (std::is_enum_v<V> || std::same_as<V, uint32_t>) return ProtoType::kUint32;
  else if constexpr (std::same_as<V, int32_t>) return ProtoType::kInt32;
  else if constexpr (IsId<V> || std::same_as<V, uint64_t>) return ProtoType::kUint64;
  else if constexpr (std::same_as<V, int64_t>) return ProtoType::kInt64;
  else if constexpr (std::same_as<V, double>) return ProtoType::kDouble;
  else return ProtoType::kMessage;
}

template <class Schema, class V>
FieldPlan PlanMember(const char* message, const char* field) {
  if constexpr (IsMap<V>) {
    using Mapped = typename V::mapped_type;
    const char* of = nullptr;
    if constexpr (IsStruct<Mapped>) of = Shape<Mapped>::Name();
    return PlanField(Schema::Find, message, field, TypeOf<Mapped>(), of, false, true);
  } else if constexpr (IsList<V>) {
    using Element = typename V::value_type;
    const char* of = nullptr;
    if constexpr (IsStruct<Element>) of = Shape<Element>::Name();
    return PlanField(Schema::Find, message, field, TypeOf<Element>(), of, true, false);
  } else {
    const char* of = nullptr;
    if constexpr (IsStruct<V>) of = Shape<V>::Name();
    return PlanField(Schema::Find, message, field, TypeOf<V>(), of, false, false);
  }
}

// The plans of T's fields in the order of its list.
template <class Schema, IsStruct T>
const std::vector<FieldPlan>& PlanOf() {
  static const std::vector<FieldPlan> plan = [] {
    std::vector<FieldPlan> found;
    T sample{};
    Shape<T>::Each(sample, [&]<class V>(const char* name, const V&) {
      found.push_back(
          PlanMember<Schema, std::remove_const_t<V>>(Shape<T>::Name(), WireNameOf<T>(name)));
    });
    return found;
  }();
  return plan;
}

template <class V>
constexpr WireType WireTypeOf() {
  if constexpr (std::same_as<V, double>) return WireType::kFixed64;
  else if constexpr (IsScalar<V>) return WireType::kVarint;
  else return WireType::kBytes;
}

// The 64 bits that stand for a scalar: integers are sign-extended, as protobuf does.
template <IsScalar V>
uint64_t BitsOf(const V& value) {
  if constexpr (std::same_as<V, double>) return std::bit_cast<uint64_t>(value);
  else if constexpr (IsId<V>) return value.value;
  else if constexpr (std::is_signed_v<V>) return static_cast<uint64_t>(int64_t{value});
  else return static_cast<uint64_t>(value);
}
template <IsScalar V>
void SetBits(V& value, uint64_t bits) {
  if constexpr (std::same_as<V, double>) value = std::bit_cast<double>(bits);
  else if constexpr (IsId<V>) value.value = bits;
  else if constexpr (std::same_as<V, bool>) value = bits != 0;
  else value = static_cast<V>(bits);
}

template <class Schema, IsStruct T>
void Encode(WireWriter& out, const T& value);

// One value with its tag, zero or not.
template <class Schema, class V>
void PutField(WireWriter& out, FieldPlan plan, const V& value) {
  out.Tag(plan.number, WireTypeOf<V>());
  if constexpr (std::same_as<V, double>) {
    out.Fixed64(BitsOf(value));
  } else if constexpr (IsScalar<V>) {
    out.Varint(BitsOf(value));
  } else if constexpr (std::same_as<V, std::string>) {
    out.Bytes(plan.is_utf8 ? ValidText(value) : value);
  } else {
    const size_t opened = out.Open();
    Encode<Schema>(out, value);
    out.Close(opened);
  }
}

template <class Schema, class V>
void PutList(WireWriter& out, FieldPlan plan, const V& list) {
  using Element = typename V::value_type;
  if (list.empty()) return;
  if constexpr (IsScalar<Element>) {  // Packed.
    out.Tag(plan.number, WireType::kBytes);
    const size_t opened = out.Open();
    for (const Element& element : list) {
      if constexpr (std::same_as<Element, double>) out.Fixed64(BitsOf(element));
      else out.Varint(BitsOf(element));
    }
    out.Close(opened);
  } else {
    for (const Element& element : list) PutField<Schema>(out, plan, element);
  }
}

// A member; left out when it is zero or empty.
template <class Schema, class V>
void Put(WireWriter& out, FieldPlan plan, const V& value) {
  if constexpr (IsScalar<V>) {
    if (BitsOf(value) != 0) PutField<Schema>(out, plan, value);
  } else if constexpr (std::same_as<V, std::string>) {
    if (!value.empty()) PutField<Schema>(out, plan, value);
  } else if constexpr (IsMap<V>) {
    for (const auto& [key, mapped] : value) {
      out.Tag(plan.number, WireType::kBytes);
      const size_t opened = out.Open();
      PutField<Schema>(out, {1, true}, key);
      PutField<Schema>(out, {2, plan.is_utf8}, mapped);
      out.Close(opened);
    }
  } else if constexpr (IsList<V>) {
    PutList<Schema>(out, plan, value);
  } else {
    const size_t before = out.size();
    out.Tag(plan.number, WireType::kBytes);
    const size_t opened = out.Open();
    Encode<Schema>(out, value);
    if (out.size() == opened) out.Cut(before);
    else out.Close(opened);
  }
}

template <class Schema, IsStruct T>
void Encode(WireWriter& out, const T& value) {
  auto plan = PlanOf<Schema, T>().begin();
  Shape<T>::Each(value,
                 [&](const char*, const auto& member) { Put<Schema>(out, *plan++, member); });
}

template <class V>
void SetZero(V& value) {
  if constexpr (IsScalar<V>) SetBits(value, 0);
  else if constexpr (IsStruct<V>) Shape<V>::Each(value, [](const char*, auto& m) { SetZero(m); });
  else value.clear();
}

template <class Schema, IsStruct T>
void Decode(WireReader& in, T& value);

// The value of the field that `in` stands at, into a member that is zero or half filled.
template <class Schema, class V>
void Get(WireReader& in, V& value) {
  if constexpr (std::same_as<V, double>) {
    SetBits(value, in.TakeFixed64());
  } else if constexpr (IsScalar<V>) {
    SetBits(value, in.TakeVarint());
  } else if constexpr (std::same_as<V, std::string>) {
    value = in.TakeBytes();
  } else if constexpr (IsStruct<V>) {
    WireReader body(in.TakeBytes());
    Decode<Schema>(body, value);
    if (body.failed()) in.Fail();
  } else if constexpr (IsMap<V>) {
    WireReader entry(in.TakeBytes());
    typename V::key_type key{};
    typename V::mapped_type mapped{};
    SetZero(mapped);
    while (uint32_t number = entry.NextField()) {
      if (number == 1) Get<Schema>(entry, key);
      else if (number == 2) Get<Schema>(entry, mapped);
      else entry.Skip();
    }
    if (entry.failed()) in.Fail();
    value.insert_or_assign(value.end(), std::move(key), std::move(mapped));
  } else {
    using Element = typename V::value_type;
    if constexpr (IsScalar<Element>) {
      if (in.type() == WireType::kBytes) {
        WireReader packed(in.TakeBytes());
        while (!packed.AtEnd()) {
          Element element{};
          SetBits(element, std::same_as<Element, double> ? packed.Fixed64() : packed.Varint());
          if (!packed.failed()) value.insert(value.end(), element);
        }
        if (packed.failed()) in.Fail();
        return;
      }
    }
    Element element{};
    SetZero(element);
    Get<Schema>(in, element);
    value.insert(value.end(), std::move(element));
  }
}

// Fields come in the order of the list as a rule, so one walk along the members takes them all;
// whatever is left is found by further walks, and a field that none of them takes is skipped: a
// newer version added it.
template <class Schema, IsStruct T>
void Decode(WireReader& in, T& value) {
  while (in.NextField() != 0) {
    bool took = false;
    auto plan = PlanOf<Schema, T>().begin();
    Shape<T>::Each(value, [&](const char*, auto& member) {
      for (; in.NextField() == plan->number; took = true) Get<Schema>(in, member);
      ++plan;
    });
    if (!took && in.NextField() != 0) in.Skip();
  }
}

}  // namespace rt::codec
