#include "cli/render/csv.h"

#include "common/base/strings.h"

namespace rt {
namespace {

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string CsvHeader(const std::vector<std::string>& columns) {
  std::vector<std::string> cells;
  for (const std::string& column : columns) cells.push_back(Quoted(column));
  return Join(cells, ",") + "\n";
}

std::string CsvRow(const std::vector<std::string>& columns, const Json& row) {
  std::vector<std::string> cells;
  for (const std::string& column : columns) {
    const Json* value = row.Find(column);
    bool none = value == nullptr || value->is_null();
    cells.push_back(none ? "" : Quoted(value->is_string() ? value->AsString() : value->Dump()));
  }
  return Join(cells, ",") + "\n";
}

}  // namespace rt
