#include "cli/render/table.h"

#include <algorithm>
#include <numeric>

#include "cli/render/spans.h"
#include "common/base/check.h"
#include "common/base/strings.h"

namespace rt {
namespace {

// The first `width` characters, the last of them "…" when something was cut.
std::string Fit(const std::string& text, size_t width) {
  if (CountCharacters(text) <= width) return text;
  std::string cut;
  size_t characters = 0;
  for (char c : text) {
    if (StartsCharacter(c) && ++characters >= width) break;
    cut += c;
  }
  return cut + "…";
}

}  // namespace

Table::Table(std::vector<std::string> header) : rows_{std::move(header)} {
  for (std::string& cell : rows_[0]) cell = EscapeControl(cell);
}

std::string Table::InkedCell(const std::vector<std::string>& row, size_t column,
                             const std::string& cell) const {
  if (&row == &rows_[0]) return Inked(cell, Ink::kBold);
  return rows_[0][column] == "STATE" ? Inked(cell, InkOfState(row[column])) : cell;
}

void Table::Add(std::vector<std::string> row) {
  RT_CHECK(row.size() == rows_[0].size());
  for (std::string& cell : row) cell = EscapeControl(cell);
  rows_.push_back(std::move(row));
}

std::string Table::Render(size_t width_max, bool color) const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], CountCharacters(row[i]));
  size_t gaps = 2 * (widths.size() - 1);
  while (std::accumulate(widths.begin(), widths.end(), gaps) > width_max) {
    auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= 4) break;
    --*widest;
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = Fit(row[i], widths[i]);
      line += color ? InkedCell(row, i, cell) : cell;
      if (i + 1 < row.size()) line.append(widths[i] - CountCharacters(cell) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace rt
