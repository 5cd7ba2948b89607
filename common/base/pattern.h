// A regular expression from a user, in RE2's syntax, which has neither back references nor
// look-around: a search takes time in proportion to the text times the pattern, and bounded memory.
// Searches are counted against a time budget where several of them share a thread. Immutable, so
// thread-safe; copies are cheap.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"

namespace re2 {
class RE2;
}

namespace rt {

class Pattern {
 public:
  // InvalidArgument: the reason and, where RE2 names the culprit, its position in `text`.
  static absl::StatusOr<Pattern> Compile(const std::string& text);

  int groups() const;  // In parentheses, which capture.
  bool IsIn(std::string_view text) const;
  // The groups of the first match at or after `from`, and where that match ends; a group that took
  // no part is empty. False: there is none.
  struct Match {
    std::vector<std::string_view> groups;
    size_t end = 0;
    bool is_empty = false;
  };
  bool Find(std::string_view text, size_t from, Match& match) const;

 private:
  explicit Pattern(std::shared_ptr<const re2::RE2> regex) : regex_(std::move(regex)) {}
  std::shared_ptr<const re2::RE2> regex_;
};

// The processor time of this thread, which no other process of a busy machine spends.
class ThreadBudget {
 public:
  explicit ThreadBudget(Millis most);
  bool IsSpent() const;

 private:
  int64_t until_us_;
};

}  // namespace rt
