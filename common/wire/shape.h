// What the codec knows of a type that is journalled or travels: the name and the fields of a
// struct (RT_FIELDS, and the ids of common/base, which have none of their own), and what is an id
// or a map.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "common/base/fields.h"
#include "common/base/ids.h"

namespace rt::codec {

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

template <>
struct Shape<Fence> {
  static const char* Name() { return "Fence"; }
  template <class Self, class Visit>
  static void Each(Self& self, Visit&& visit) {
    visit("attempt", self.attempt);
    visit("rank", self.rank);
  }
};

template <class T>
concept IsStruct = HasFields<T> || std::same_as<T, TrialId> || std::same_as<T, Owner> ||
                   std::same_as<T, AttemptId> || std::same_as<T, Fence>;
template <class T>
concept IsId = requires { typename std::type_identity_t<decltype(T::value)>; } && !IsStruct<T> &&
               sizeof(T) == sizeof(uint64_t) && std::is_aggregate_v<T>;
template <class T>
concept IsMap = requires { typename T::mapped_type; };

}  // namespace rt::codec
