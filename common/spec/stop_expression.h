// When a trial stops, as one condition over its rows: "loss < 0.1 or training_iteration >= 100".
// Comparisons (< <= > >= == !=) of reported values and numbers, joined by and, or, not and
// parentheses, with the precedence of Python. A name that has other characters than letters, digits
// and _ . / is quoted. A comparison with a value that the row lacks is unknown, and so is what
// depends on it; only a condition that is true stops a trial. Nothing of it is executed as code.
// Parsed once, on the client and for the journal; the trial's side gets the tree. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"

namespace rt {

struct RowView;

struct StopExpression {
  std::string text;  // As it was written.
  // {"or": [tree, …]}, {"and": [tree, …]}, {"not": tree}, or a comparison {"<": [left, right]}, in
  // which a text is the name of a value. Null: there is no expression.
  Json tree;

  bool is_given() const { return !tree.is_null(); }
  bool IsMet(const RowView& row) const;
  std::vector<std::string> Names() const;  // Of reported values, ascending, each once.
};

// An error says at which column of the text it is, also as PositionOf(status).column.
absl::StatusOr<StopExpression> ParseStopExpression(std::string_view text);

}  // namespace rt
