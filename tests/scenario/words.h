// The words of a story's command, one after the other.
#pragma once

#include <cstdio>
#include <istream>
#include <string>

#include "head/core/core.h"

namespace rt::scenario {

inline std::string Rest(std::istream& words) {
  std::string rest;
  std::getline(words >> std::ws, rest);
  return rest;
}
template <class T>
T Next(std::istream& words) {
  T value{};
  words >> value;
  return value;
}
inline Fence NextFence(std::istream& words) {
  const std::string text = Next<std::string>(words);
  auto fence = ParseFence(text);
  if (!fence) std::fprintf(stderr, "scenario: '%s' is no fence\n", text.c_str());
  return fence.value_or(Fence{});
}

}  // namespace rt::scenario
