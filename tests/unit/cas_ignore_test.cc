#include <catch2/catch.hpp>

#include "common/cas/ignore.h"

using namespace rt;

TEST_CASE("ignore: globs match as git's do") {
  CHECK(MatchesGlob("*.pyc", "a.pyc"));
  CHECK(!MatchesGlob("*.pyc", "a.py"));
  CHECK(!MatchesGlob("a*c", "a/c"));
  CHECK(MatchesGlob("a?c", "abc"));
  CHECK(!MatchesGlob("a?c", "a/c"));
  CHECK(MatchesGlob("[a-c]x", "bx"));
  CHECK(!MatchesGlob("[!a-c]x", "bx"));
  CHECK(MatchesGlob("[]]", "]"));
  CHECK(MatchesGlob("[open", "[open"));
  CHECK(MatchesGlob("\\*", "*"));
  CHECK(!MatchesGlob("\\*", "x"));
  CHECK(MatchesGlob("**/foo", "foo"));
  CHECK(MatchesGlob("**/foo", "a/b/foo"));
  CHECK(!MatchesGlob("**/foo", "a/bfoo"));
  CHECK(MatchesGlob("a/**", "a/b/c"));
  CHECK(!MatchesGlob("a/**", "b/a"));
  CHECK(MatchesGlob("a/**/b", "a/b"));
  CHECK(MatchesGlob("a/**/b", "a/x/y/b"));
  CHECK(!MatchesGlob("a/**/b", "a/x/yb"));
  CHECK(MatchesGlob("**/a*/b", "x/ac/aa/b"));
  CHECK(!MatchesGlob("*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

TEST_CASE("ignore: the last match wins, and '!' takes back") {
  IgnoreRules rules;
  rules.AddFile("", "# notes\n*.log\n!keep.log\n\n/build/\ndata/*.bin\nout/\n\\#odd\n");
  CHECK(rules.IsIgnored("a.log", false));
  CHECK(rules.IsIgnored("x/y/a.log", false));
  CHECK(!rules.IsIgnored("x/keep.log", false));
  CHECK(rules.IsIgnored("build", true));
  CHECK(!rules.IsIgnored("build", false));
  CHECK(!rules.IsIgnored("x/build", true));
  CHECK(rules.IsIgnored("data/a.bin", false));
  CHECK(!rules.IsIgnored("x/data/a.bin", false));
  CHECK(rules.IsIgnored("x/out", true));
  CHECK(rules.IsIgnored("#odd", false));
  CHECK(!rules.IsIgnored("# notes", false));
}

TEST_CASE("ignore: a file's rules count below its directory, and end with it") {
  IgnoreRules rules;
  rules.AddFile("", "*.tmp\n");
  size_t before = rules.size();
  rules.AddFile("sub", "!a.tmp\n/b\n");
  CHECK(!rules.IsIgnored("sub/a.tmp", false));
  CHECK(rules.IsIgnored("a.tmp", false));
  CHECK(rules.IsIgnored("sub/b", false));
  CHECK(!rules.IsIgnored("b", false));
  rules.Truncate(before);
  CHECK(rules.IsIgnored("sub/a.tmp", false));
}
