// What the tests of the command line's texts share.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "common/base/json.h"

namespace rt {

inline Json Parsed(const std::string& text) {
  absl::StatusOr<Json> json = Json::Parse(text);
  REQUIRE(json.ok());
  return *json;
}

inline bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace rt
