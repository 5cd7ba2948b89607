#include <catch2/catch.hpp>

#include "cli/render/plan_space.h"
#include "cli/written.h"
#include "tests/unit/cli_text.h"

using namespace rt;

namespace {

Json Planned(const std::string& space) {
  auto parsed = ParseSpace(Parsed(space), "space");
  REQUIRE(parsed.ok());
  return PlanSpace(*parsed);
}
ExperimentFile Loaded(const std::string& text) {
  auto document = ParseYaml("experiment: e\ncommand: [x]\n" + text, "e.yaml");
  REQUIRE(document.ok());
  auto file = LoadExperiment(*document);
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  return *std::move(file);
}

}  // namespace

TEST_CASE("plan: the space is shown as it was understood, constants marked") {
  Json space = Planned(R"({"lr":{"loguniform":[1e-4,0.1]},"n":{"qrandint":[2,8,2]},
      "noise":{"randn":[0,1]},"opt":{"name":{"choice":["adam","sgd"]},"betas":[0.9,0.99]},
      "seed":{"grid":[1,2]},"layers":[{"choice":[1,2]},64],"width":64})");
  std::vector<std::string> kinds;
  for (const Json& parameter : space.array())
    kinds.push_back(parameter.GetString("name") + " " + parameter.GetString("kind"));
  CHECK(kinds == std::vector<std::string>{"layers/0 choice", "layers/1 constant", "lr loguniform",
                                          "n qrandint", "noise randn", "opt/betas constant",
                                          "opt/name choice", "seed grid", "width constant"});
  std::string text = TextOfSpace(Json::MakeObject({{"space", space}, {"notes", Json()}}));
  CHECK(Has(text, "lr         loguniform    from 0.0001 to 0.1\n"));
  CHECK(Has(text, "from 2 to 8, in steps of 2\n"));
  CHECK(Has(text, "mean 0, deviation 1\n"));
  CHECK(Has(text, "opt/name   choice        adam, sgd\n"));
  CHECK(Has(text, "opt/betas  constant      [0.9,0.99]\n"));
}

TEST_CASE("plan: conditions are shown in words, and parameters of one name apart") {
  Json space = Planned(R"({"kind":{"choice":["sgd","adam"]},"n":{"randint":[1,5]},
      "momentum":{"uniform":[0,1],"if":{"kind":"sgd","n":{">=":2}}},
      "net":{"choice":[{"width":{"randint":[1,9]}},{"width":{"uniform":[0,1]}}]}})");
  std::vector<std::string> conditions;
  for (const Json& parameter : space.array())
    conditions.push_back(parameter.GetString("name") + ": " + parameter.GetString("if"));
  CHECK(conditions == std::vector<std::string>{"kind: ", "momentum: kind is sgd, n is at least 2",
                                               "n: ", "net: ", "net/width: net is value 1",
                                               "net/width: net is value 2"});
  std::string text = TextOfSpace(Json::MakeObject({{"space", space}, {"notes", Json()}}));
  CHECK(Has(text, "VALUES"));
  CHECK(Has(text, "IF\n"));
  CHECK(Has(text, "kind is sgd, n is at least 2\n"));
}

TEST_CASE("a condition that cannot hold is an error at its place in the file") {
  auto document = ParseYaml(
      "experiment: e\ncommand: [x]\nspace:\n  kind: {choice: [a, b]}\n"
      "  x: {uniform: [0, 1], if: {kind: c}}\n",
      "e.yaml");
  REQUIRE(document.ok());
  const absl::Status refused = LoadExperiment(*document).status();
  REQUIRE_FALSE(refused.ok());
  CHECK(PositionOf(refused).line == 5);
  CHECK(PositionOf(refused).column == 35);
  CHECK(Has(MessageOf(refused), "'kind' is never \"c\""));
}

TEST_CASE("plan: notes name the line of the file") {
  ExperimentFile file = Loaded("space:\n  a: 1\n  lr: [1, 2, 3]\n");
  std::vector<std::string> notes = NotesFor(file, Json());
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("e.yaml:5: lr is the same list in every trial"));
  CHECK(Has(notes[0], "{choice: [1,2,3]}"));
  CHECK(Has(notes[0], "{grid: [1,2,3]}"));
  CHECK(Has(TextOfSpace(Json::MakeObject({{"notes", Json(Json::Array{notes[0]})}})), "note: e.ya"));
}

TEST_CASE("plan: notes name points and known results that the space does not have") {
  ExperimentFile file = Loaded(
      "space:\n  lr: {uniform: [0, 1]}\nmetric: loss\nmode: min\nsearch:\n  tpe:\n"
      "    points: [{lr: 0.1}, {rl: 0.2}]\n"
      "    evaluated: [{config: {lr: 0.5}, value: 1}, {config: {lr: 2}, value: 1},\n"
      "                {config: {}, value: 1}]\n");
  const std::vector<std::string> notes = NotesFor(file, Json());
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] == "e.yaml:9: points: 'rl' is not in the search space; did you mean 'lr'?");
  CHECK(notes[1] ==
        "e.yaml:10: search/tpe/evaluated: 2 of 3 results lie outside the space or lack a "
        "parameter, and nothing is learned from them");
}

TEST_CASE("plan: a plateau of one value ends every trial, and a note says so") {
  const std::string rest = "metric: loss\nmode: min\nstop:\n  plateau: {num_results: ";
  const std::vector<std::string> notes = NotesFor(Loaded((rest + "1}\n").c_str()), Json());
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] ==
        "e.yaml:6: stop/plateau/num_results: one value has no deviation, so that every trial ends "
        "after 4 values");
  CHECK(NotesFor(Loaded((rest + "2}\n").c_str()), Json()).empty());
}

TEST_CASE("a resource that no node has and that resembles one of rt's own is an error") {
  ExperimentFile file = Loaded("resources:\n  cpus: 1\n");
  Json without = Parsed(R"([{"resources_total":{"cpu":4,"custom":{}}}])");
  absl::Status refused = CheckResources(file, without);
  REQUIRE_FALSE(refused.ok());
  CHECK(MessageOf(refused) == "no node has the resource 'cpus'");
  CHECK(HintOf(refused) == "did you mean 'cpu'?");
  CHECK(PositionOf(refused).line == 4);
  CHECK(PositionOf(refused).column == 3);
  CHECK(CheckResources(file, Parsed(R"([{"resources_total":{"custom":{"cpus":1}}}])")).ok());
  // Where no node is known it is a note.
  CHECK(CheckResources(file, Json()).ok());
  CHECK(Has(NotesFor(file, Json())[0], "e.yaml:4: 'cpus' is taken for a resource of the cluster"));
  CHECK(CheckResources(Loaded("resources: {license: 1}\n"), without).ok());
}

TEST_CASE("an experiment YAML with a slip is refused at the place of its key") {
  auto document = ParseYaml("experiment: e\ncommand: [x]\nspace:\n  lr: {loguniorm: [1, 2]}\n",
                            "e.yaml");
  REQUIRE(document.ok());
  absl::Status refused = LoadExperiment(*document).status();
  REQUIRE_FALSE(refused.ok());
  CHECK(PositionOf(refused).line == 4);
  CHECK(PositionOf(refused).column == 8);
  CHECK(Has(HintOf(refused), "did you mean 'loguniform'?"));
}

TEST_CASE("an error in a stop expression is at its place in the line") {
  auto document = ParseYaml("experiment: e\ncommand: [x]\nstop: loss < 0.1 && acc > 1\n", "e.yaml");
  REQUIRE(document.ok());
  const absl::Status refused = LoadExperiment(*document).status();
  CHECK(PositionOf(refused).line == 3);
  CHECK(PositionOf(refused).column == 18);
  CHECK(HintOf(refused) == "write and");
}
