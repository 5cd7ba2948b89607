// Plain text tables: columns padded to their widest cell, the whole at most 100 columns wide (the
// widest columns are cut, with "…"). What could drive a terminal is escaped, also in the header
// (metrics and parameters have names that users chose). Pure.
#pragma once

#include <string>
#include <vector>

namespace rt {

class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void Add(std::vector<std::string> row);  // As many cells as the header has.
  // With `color` the header is bold, and what stands in the column STATE has the ink of its state.
  std::string Render(size_t width_max = 100, bool color = false) const;

 private:
  std::string InkedCell(const std::vector<std::string>& row, size_t column,
                        const std::string& cell) const;

  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rt
