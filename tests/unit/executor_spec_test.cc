// What an executor may be requested with, and how the journal keeps it.
#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/spec/journalled_spec.h"

namespace rt {
namespace {

absl::StatusOr<ExecutorSpec> Parsed(const std::string& text) {
  auto json = Json::Parse(text);
  REQUIRE(json.ok());
  return ParseExecutorSpec(*json);
}

}  // namespace

TEST_CASE("executor spec: what is wrong is refused with its place") {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"argv":[]})", "argv"},
      {R"({"argv":["x"],"params":[1]})", "params"},
      {R"({"argv":["x"],"inputs":[{"manifest":"m"}]})", "inputs"},
      {R"({"argv":["x"],"resources":{"cpu":-1}})", "resources/cpu"},
      {R"({"argv":["x"],"detached":true})", "actor"},
      {R"({"argv":["x"],"detached":true,"actor":{"class":"C"}})", "actor/name"},
      {R"({"argv":["x"],"max_restarts":-2})", "max_restarts"},
      {R"({"argv":["x"],"resources":{"ranks":2}})", "resources"},
  };
  for (const auto& [text, path] : wrong) {
    INFO(text);
    const absl::Status refused = Parsed(text).status();
    CHECK(absl::IsInvalidArgument(refused));
    CHECK(SpecPathOf(refused) == path);
  }
}

TEST_CASE("executor spec: the journal's form is read back as it was written") {
  const auto spec = Parsed(R"({"name":"n","argv":["a","b"],"env":{"E":"1"},"bundle":"d","cwd":"w",
      "resources":{"cpu":2,"gpu":0.5},"inputs":[{"manifest":"m","env":"I"}],
      "params":{"secret":"s"},"detached":true,"actor":{"name":"an","class":"C"},
      "max_restarts":-1})");
  REQUIRE(spec.ok());
  const std::string normal = NormalText(*spec);
  const SpecReading<ExecutorSpec> read = ReadJournalledExecutor({"", normal, kSpecFormat});
  CHECK(read.warnings.empty());
  CHECK(NormalText(read.spec) == normal);
  CHECK(read.spec.program.argv == std::vector<std::string>{"a", "b"});
  CHECK(read.spec.program.resources.one().gpu == kUnit / 2);
  CHECK(read.spec.inputs.at(0).env == "I");
  CHECK(read.spec.params == R"({"secret":"s"})");
  CHECK(read.spec.detached);
  CHECK(read.spec.actor_name == "an");
  CHECK(read.spec.actor_class == "C");
  CHECK(read.spec.max_restarts == -1);
}

}  // namespace rt
