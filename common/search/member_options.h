// Options of a search algorithm that are members of a struct: the rows of its table are made of one
// list, and the values are read by it. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "common/base/json.h"
#include "common/spec/algorithm.h"

namespace rt {

// A number, or a count: the other pointer is null.
template <class Options>
struct MemberOption {
  const char* name;
  double Options::*number;
  size_t Options::*count;
  double lower, upper;
  const char* meaning;
  bool is_open = false;  // As in AlgorithmOption.
};

// Adds a row for each; the defaults are those of the struct, or others of a version.
template <class Options>
void AddMemberOptions(std::span<const MemberOption<Options>> all, AlgorithmTable& table,
                      const Options& defaults = {}) {
  for (const MemberOption<Options>& option : all) {
    const bool is_count = option.count != nullptr;
    AlgorithmOption row{
        .name = option.name,
        .type = is_count ? AlgorithmOption::Type::kInteger : AlgorithmOption::Type::kNumber,
        .meaning = option.meaning,
        .lower = option.lower,
        .upper = option.upper,
        .is_open = option.is_open};
    if (is_count) row.default_value = Json(static_cast<int64_t>(defaults.*option.count));
    else row.default_value = Json(defaults.*option.number);
    table.options.push_back(std::move(row));
  }
}

// What is given of checked options; the others keep their defaults.
template <class Options>
Options ReadMemberOptions(std::span<const MemberOption<Options>> all, const Json& given,
                          const Options& defaults = {}) {
  Options options = defaults;
  for (const MemberOption<Options>& option : all) {
    const Json* value = given.Find(option.name);
    if (value == nullptr || !value->HasDouble()) continue;
    if (option.count == nullptr) options.*option.number = value->AsDouble();
    else options.*option.count = static_cast<size_t>(std::max(0.0, value->AsDouble()));
  }
  return options;
}

}  // namespace rt
