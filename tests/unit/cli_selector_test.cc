#include <catch2/catch.hpp>

#include "cli/selector.h"
#include "cli/shellwords.h"

using namespace rt;
using Numbers = std::vector<uint64_t>;
using Words = std::vector<std::string>;

TEST_CASE("selector: numbers, ranges, last and all, ascending and once each") {
  Numbers known = {1, 2, 3, 5, 6, 9};
  CHECK(*SelectNumbers("3,5-8,3", known, "job") == Numbers{3, 5, 6});
  CHECK(*SelectNumbers("last", known, "job") == Numbers{9});
  CHECK(*SelectNumbers("all", known, "job") == known);
}

TEST_CASE("selector: what is not there is not found, what is malformed is refused") {
  CHECK(absl::IsNotFound(SelectNumbers("7", {1, 2}, "job").status()));
  CHECK(absl::IsNotFound(SelectNumbers("last", {}, "job").status()));
  for (const char* text : {"", "x", "3-", "5-3", "1,,2", "-1"})
    CHECK(absl::IsInvalidArgument(SelectNumbers(text, {1, 2, 3}, "job").status()));
}

TEST_CASE("selector: a trial's experiment stands before the slash") {
  auto split = SplitTrialSelectors("2/0-3,7,5/1");
  REQUIRE(split.size() == 2);
  CHECK(split[0].experiment == "2");
  CHECK(split[0].numbers == "0-3,7");
  CHECK(split[1].experiment == "5");
  CHECK(split[1].numbers == "1");
  CHECK(SplitTrialSelectors("4").front().experiment.empty());
}

TEST_CASE("shell words: quotes and backslashes, and nothing else") {
  CHECK(*SplitShellWords("a 'b c' \"d \\\"e\" f\\ g ''") == Words{"a", "b c", "d \"e", "f g", ""});
  CHECK(*SplitShellWords("  $HOME *  ") == Words{"$HOME", "*"});
  CHECK(!SplitShellWords("a 'b").ok());
}
