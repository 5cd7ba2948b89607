#include <catch2/catch.hpp>

#include "common/base/pattern.h"
#include "common/base/status.h"

namespace rt {
namespace {

TEST_CASE("pattern: the groups of each match, in turn") {
  const auto pattern = Pattern::Compile(R"((\w+)=([-+.\deE]+)?)");
  REQUIRE(pattern.ok());
  CHECK(pattern->groups() == 2);
  CHECK(pattern->IsIn("epoch 1 loss=0.5"));
  CHECK_FALSE(pattern->IsIn("nothing"));
  const std::string line = "loss=0.5 acc= lr=1e-3";
  std::vector<std::pair<std::string, std::string>> found;
  Pattern::Match match;
  for (size_t at = 0; pattern->Find(line, at, match); at = match.end)
    found.emplace_back(match.groups[0], match.groups[1]);
  CHECK(found == std::vector<std::pair<std::string, std::string>>{
                     {"loss", "0.5"}, {"acc", ""}, {"lr", "1e-3"}});
}

TEST_CASE("pattern: a refusal names the reason, the position and what to do") {
  auto check = [](const std::string& text, const std::string& why, const std::string& hint) {
    const auto pattern = Pattern::Compile(text);
    INFO(text);
    REQUIRE(!pattern.ok());
    INFO(pattern.status().ToString());
    CHECK(MessageOf(pattern.status()).ends_with(why));
    CHECK(HintOf(pattern.status()).find(hint) != std::string::npos);
  };
  check("(a)\\1", "invalid escape sequence: \\1, at character 4", "back references");
  check("x(?=a)b", "(?=, at character 2", "look-around");
  check("\\(?=(?=a)", "(?=, at character 5", "look-around");  // The first one is no operator.
  check("(?:a?){9000}b", "invalid repetition size: {9000}, at character 7", "1000");
  check("(?:a?){1000}b", "too large (2005 instructions, at most 2000)", "1000");
  check("(?:\\pL{100}){9}b", "pattern too large - compile failed", "1000");
  check("loss=(.*", "missing ): loss=(.*", "Syntax");
  check("ab[z-a]", "invalid character class range: z-a, at character 4", "Syntax");
}

TEST_CASE("pattern: nested repetitions take no exponential time and no stack") {
  const auto nested = Pattern::Compile("(?:(?:a+)+)+b");
  REQUIRE(nested.ok());
  CHECK_FALSE(nested->IsIn(std::string(1 << 20, 'a')));
  const auto any = Pattern::Compile("(?:a|b)*c");
  REQUIRE(any.ok());
  CHECK_FALSE(any->IsIn(std::string(1 << 20, 'a')));
}

TEST_CASE("pattern: a budget counts what this thread computes") {
  const auto costly = Pattern::Compile("(?:a?){900}b");
  REQUIRE(costly.ok());
  const ThreadBudget budget(5);
  CHECK_FALSE(budget.IsSpent());
  const std::string text(4'096, 'a');
  while (!budget.IsSpent()) CHECK_FALSE(costly->IsIn(text));
}

}  // namespace
}  // namespace rt
