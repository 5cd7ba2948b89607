#include "common/spec/stop_expression.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/base/status.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/journalled_spec.h"

using namespace rt;

namespace {

bool Meets(const std::string& text, const std::string& row, double iteration = 1) {
  const auto expression = ParseStopExpression(text);
  INFO(text << ": " << expression.status().ToString());
  REQUIRE(expression.ok());
  const Json metrics = *Json::Parse(row);
  return expression->IsMet({metrics, iteration, 0.5});
}

// "column: message | hint".
std::string ProblemWith(const std::string& text) {
  const absl::Status status = ParseStopExpression(text).status();
  CHECK(absl::IsInvalidArgument(status));
  return std::to_string(PositionOf(status).column) + ": " + MessageOf(status) + " | " +
         HintOf(status);
}

}  // namespace

TEST_CASE("stop expression: comparisons of reported values, counters and numbers") {
  CHECK(Meets("loss < 0.1", R"({"loss":0.05})"));
  CHECK_FALSE(Meets("loss < 0.1", R"({"loss":0.1})"));
  CHECK(Meets("loss<=1e-1", R"({"loss":0.1})"));
  CHECK(Meets("0.9 <= acc", R"({"acc":0.9})"));
  CHECK(Meets("training_iteration >= 100", "{}", 100));
  CHECK(Meets("time_total_s > .25", "{}"));
  CHECK(Meets("step == -3", R"({"step":-3})"));
  CHECK(Meets("step != +3", R"({"step":-3})"));
  CHECK(Meets("val/loss > train/loss", R"({"val":{"loss":2},"train":{"loss":1}})"));
  CHECK(Meets("'val-loss' > \"my acc\"", R"({"val-loss":2,"my acc":1})"));
  CHECK(Meets("done == 1", R"({"done":true})"));
}

TEST_CASE("stop expression: not binds more than and, and more than or") {
  const std::string row = R"({"a":1,"b":2,"c":3})";
  CHECK(Meets("a == 1 or b == 9 and c == 9", row));
  CHECK_FALSE(Meets("(a == 1 or b == 9) and c == 9", row));
  CHECK(Meets("not a == 2 and b == 2", row));
  CHECK_FALSE(Meets("not (a == 1 or b == 9)", row));
  CHECK(Meets("not not a == 1", row));
  CHECK(Meets("a == 9 or b == 9 or c == 3", row));
}

TEST_CASE("stop expression: what depends on a value that the row lacks stops no trial") {
  CHECK_FALSE(Meets("loss < 0.1", "{}"));
  CHECK_FALSE(Meets("not loss < 0.1", "{}"));
  CHECK_FALSE(Meets("loss < 0.1 and acc > 0", R"({"acc":1})"));
  CHECK(Meets("loss < 0.1 or acc > 0", R"({"acc":1})"));
  CHECK(Meets("not (loss < 0.1 and acc > 5)", R"({"acc":1})"));  // False whatever the loss is.
  CHECK_FALSE(Meets("not (loss < 0.1 or acc > 5)", R"({"acc":1})"));
  CHECK_FALSE(Meets("loss < 0.1", R"({"loss":"NaN"})"));
  CHECK_FALSE(Meets("loss < 0.1", R"({"loss":"low"})"));
  CHECK(Meets("loss > 0.1", R"({"loss":"Infinity"})"));
}

TEST_CASE("stop expression: an error says at which column it is, and what to write") {
  const std::string example = " | for example: loss < 0.1 or training_iteration >= 100";
  CHECK(ProblemWith("") ==
        "1: stop: column 1: expected a number or the name of a reported value, and the expression "
        "ends" +
            example);
  CHECK(ProblemWith("loss < 0.1 && acc > 1") ==
        "12: stop: column 12: '&& acc > 1' is not understood | write and");
  CHECK(ProblemWith("loss = 0.1") ==
        "6: stop: column 6: '= 0.1' is not understood | write == to compare");
  CHECK(ProblemWith("loss") ==
        "5: stop: column 5: expected a comparison such as <, and the "
        "expression ends" +
            example);
  CHECK(ProblemWith("loss < 0.1 OR acc > 1") ==
        "12: stop: column 12: expected and, or, or the end, not 'OR' | and, or and not are written "
        "in small letters");
  CHECK(ProblemWith("(loss < 0.1") == "1: stop: column 1: this ( is not closed" + example);
  CHECK(ProblemWith("0 < loss < 1") ==
        "10: stop: column 10: a comparison has two sides | write 0 < loss and loss < 1");
  CHECK(ProblemWith("1 < 2") ==
        "1: stop: column 1: compares two numbers | name a value that trials report");
  CHECK(ProblemWith("val-loss < 1") ==
        "4: stop: column 4: '-loss < 1' is not understood | quote a name that has a hyphen: "
        "'val-loss' < 0.1");
  CHECK(ProblemWith("'loss < 1") == "1: stop: column 1: the quote is not closed" + example);
  CHECK_FALSE(ParseStopExpression("loss < 1x").ok());
  CHECK_FALSE(ParseStopExpression("loss < 0.1)").ok());
  CHECK_FALSE(ParseStopExpression(std::string(5'000, ' ') + "loss < 1").ok());
  CHECK_FALSE(ParseStopExpression(std::string(100, '(') + "loss < 1" + std::string(100, ')')).ok());
}

TEST_CASE("stop expression: it names what it reads, and outlives the journal") {
  const auto spec = ParseExperimentSpec(*Json::Parse(
      R"j({"experiment":"e","command":["x"],"stop":"loss < 0.1 or (b > a and not loss > 3)"})j"));
  REQUIRE(spec.ok());
  CHECK(spec->stop_when.Names() == std::vector<std::string>{"a", "b", "loss"});
  CHECK(spec->stop_when.tree.Dump() ==
        R"({"or":[{"<":["loss",0.1]},{"and":[{">":["b","a"]},{"not":{">":["loss",3.0]}}]}]})");
  const auto read = ReadJournalledExperiment({"", NormalText(*spec), kSpecFormat});
  CHECK(read.spec.stop_when.tree == spec->stop_when.tree);
  CHECK(read.warnings.empty());
}
