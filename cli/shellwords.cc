#include "cli/shellwords.h"

#include "common/base/status.h"

namespace rt {

absl::StatusOr<std::vector<std::string>> SplitShellWords(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool open = false;  // A word has begun, if only by an empty quote.
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    char c = line[i];
    if (quote == '\'') {
      if (c == quote) quote = 0;
      else word += c;
    } else if (c == '\\' && i + 1 < line.size()) {
      char next = line[++i];
      bool literal = quote == '"' && next != '"' && next != '\\' && next != '$' && next != '`';
      if (literal) word += c;
      word += next;
      open = true;
    } else if (quote == '"') {
      if (c == quote) quote = 0;
      else word += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
      open = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (open) words.push_back(std::move(word));
      word.clear();
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (quote != 0) return Invalid("--args: the quote is not closed", "close it, or use -- ARGS…");
  if (open) words.push_back(std::move(word));
  return words;
}

}  // namespace rt
