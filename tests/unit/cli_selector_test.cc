#include <catch2/catch.hpp>

#include "cli/client/selector.h"
#include "cli/shellwords.h"
#include "common/base/status.h"

using namespace rt;
using Numbers = std::vector<uint64_t>;
using Words = std::vector<std::string>;

namespace {

std::vector<Selectable> Numbered(const Numbers& numbers) {
  std::vector<Selectable> known;
  for (uint64_t number : numbers) known.push_back({number, ""});
  return known;
}

}  // namespace

TEST_CASE("selector: numbers, ranges, last and all, ascending and once each") {
  const auto known = Numbered({1, 2, 3, 5, 6, 9});
  CHECK(*SelectNumbers("3,5-8,3", known, {"job"}) == Numbers{3, 5, 6});
  CHECK(*SelectNumbers("j3,j5-8", known, {"job", 'j'}) == Numbers{3, 5, 6});
  CHECK(*SelectNumbers("last", known, {"job"}) == Numbers{9});
  CHECK(*SelectNumbers("all", known, {"job"}) == Numbers{1, 2, 3, 5, 6, 9});
}

TEST_CASE("selector: names count in every place, mixed with numbers and ranges") {
  const std::vector<Selectable> known = {{1, "alpha"}, {2, "beta"}, {3, "alpha"}, {4, "n9"},
                                         {5, "a,b"},   {6, "n6"},   {7, "x-1"}};
  CHECK(*SelectNumbers("beta,alpha", known, {"node", 'n'}) == Numbers{2, 3});
  CHECK(*SelectNumbers("1,n2,alpha,x-1", known, {"node", 'n'}) == Numbers{1, 2, 3, 7});
  CHECK(*SelectNumbers("n9,n6", known, {"node", 'n'}) == Numbers{4, 6});
  CHECK(*SelectNumbers("a,b", known, {"node", 'n'}) == Numbers{5});
  const absl::Status unknown = SelectNumbers("beta,alpa", known, {"node", 'n'}).status();
  CHECK(absl::IsNotFound(unknown));
  CHECK(MessageOf(unknown) == "no node matches 'alpa'");
  CHECK(HintOf(unknown) == "did you mean 'alpha'?");
}

TEST_CASE("selector: an id is never displaced by a name that looks like it") {
  const std::vector<Selectable> known = {{1, "a"},   {2, "b"},   {3, "c"},  {4, "1"}, {5, "2-3"},
                                         {6, "1,2"}, {7, "all"}, {8, "n1"}, {9, "99"}};
  const SelectorNoun noun{"node", 'n', ""};
  CHECK(*SelectNumbers("1", known, noun) == Numbers{1});
  CHECK(*SelectNumbers("2-3", known, noun) == Numbers{2, 3});
  CHECK(*SelectNumbers("1,2", known, noun) == Numbers{1, 2});
  CHECK(SelectNumbers("all", known, noun)->size() == 9);
  const absl::Status none = SelectNumbers("99", known, noun).status();
  CHECK(MessageOf(none) == "no node matches '99'");
  CHECK(HintOf(none) == "the node with the name '99' is 9");
  const absl::Status two = SelectNumbers("n1", known, noun).status();
  CHECK(absl::IsInvalidArgument(two));
  CHECK(MessageOf(two) == "'n1' is the name of node 8, and an id of another");
  CHECK(HintOf(two) == "write 8 for the one with that name, or 1");
  CHECK(*SelectNumbers("n1", {{1, "n1"}, {2, "x"}}, noun) == Numbers{1});
}

TEST_CASE("selector: what is not there is not found, what is malformed is refused") {
  CHECK(absl::IsNotFound(SelectNumbers("7", Numbered({1, 2}), {"job"}).status()));
  CHECK(absl::IsNotFound(SelectNumbers("last", {}, {"job"}).status()));
  CHECK(absl::IsNotFound(SelectNumbers("x", Numbered({1}), {"job"}).status()));
  CHECK(MessageOf(SelectNumbers("9", Numbered({1}), {"trial", 0, "3/"}).status()) ==
        "no trial matches '3/9'");
  for (const char* text : {"", "3-", "5-3", "1,,2", "-1", "1-2-3"})
    CHECK(absl::IsInvalidArgument(SelectNumbers(text, Numbered({1, 2, 3}), {"job"}).status()));
}

TEST_CASE("selector: a trial's experiment stands before the slash") {
  auto split = SplitTrialSelectors("2/0-3,7,5/1");
  REQUIRE(split.size() == 2);
  CHECK(split[0].experiment == "2");
  CHECK(split[0].numbers == "0-3,7");
  CHECK(split[1].experiment == "5");
  CHECK(split[1].numbers == "1");
  CHECK(SplitTrialSelectors("4").front().experiment.empty());
  CHECK(SplitTrialSelectors("t4").front().numbers == "4");
}

TEST_CASE("selector: a trial's name stands alone") {
  auto split = SplitTrialSelectors("shell_2_00000,3,demo/last,4");
  REQUIRE(split.size() == 3);
  CHECK(split[0].name == "shell_2_00000");
  CHECK(split[1].numbers == "3");
  CHECK(split[1].experiment.empty());
  CHECK(split[2].experiment == "demo");
  CHECK(split[2].numbers == "last,4");
}

TEST_CASE("shell words: quotes and backslashes, and nothing else") {
  CHECK(*SplitShellWords("a 'b c' \"d \\\"e\" f\\ g ''") == Words{"a", "b c", "d \"e", "f g", ""});
  CHECK(*SplitShellWords("  $HOME *  ") == Words{"$HOME", "*"});
  CHECK(!SplitShellWords("a 'b").ok());
}
