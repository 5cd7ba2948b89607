// The registry of the project: docs/algorithms.md says what its tables say. RT_BLESS=1 writes the
// generated part of that page.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/algorithms/registry.h"
#include "common/base/strings.h"

using namespace rt;

namespace {

constexpr char kBegin[] = "<!-- written by unit_algorithms -->\n";

std::string RangeOf(const AlgorithmOption& option) {
  std::string text;
  if (!std::isinf(option.lower))
    text = (option.is_open ? "above " : "from ") + FormatDouble(option.lower);
  if (!std::isinf(option.upper)) text += " to " + FormatDouble(option.upper);
  return text;
}

std::string TextOf(const AlgorithmTable& table) {
  std::string text = "### " + table.name + "\n\n" + table.meaning + ". Version " +
                     std::to_string(table.version) + ".";
  if (!table.aliases.empty()) text += " Other names: " + Join(table.aliases, ", ") + ".";
  if (table.needs_metric) text += " It needs a `metric`.";
  text += "\n\n";
  if (table.options.empty()) return text;
  text += "| option | type | default | range | meaning |\n|---|---|---|---|---|\n";
  const Json json = ToJson(table);
  for (size_t i = 0; i < table.options.size(); ++i) {
    const AlgorithmOption& option = table.options[i];
    const Json& described = json.Find("options")->array()[i];
    text += "| `" + option.name + "` | " + described.GetString("type") + " | `" +
            option.default_value.Dump() + "` | " + RangeOf(option) + " | " + option.meaning +
            " |\n";
  }
  return text + "\n";
}

std::string Generated() {
  std::string text = kBegin;
  for (AlgorithmKind kind : {AlgorithmKind::kSearch, AlgorithmKind::kScheduler}) {
    text += kind == AlgorithmKind::kSearch ? "\n## Search algorithms\n\n" : "## Schedulers\n\n";
    for (const AlgorithmTable* table : AlgorithmTables(kind))
      if (FindTable(kind, table->name) == table) text += TextOf(*table);  // The newest version.
  }
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace

TEST_CASE("algorithms: the page in docs says what the tables say") {
  std::ifstream file(RT_ALGORITHM_DOCS);
  std::stringstream page;
  page << file.rdbuf();
  const size_t at = page.str().find(kBegin);
  REQUIRE(at != std::string::npos);
  if (std::getenv("RT_BLESS") != nullptr)
    std::ofstream(RT_ALGORITHM_DOCS) << page.str().substr(0, at) << Generated();
  else
    CHECK(page.str().substr(at) == Generated());
}

TEST_CASE("algorithms: a spec that nobody has parsed has the defaults") {
  CHECK(&SearcherOf(ExperimentSpec{}) == Searchers().front());
  CHECK(&SchedulerOf(ExperimentSpec{}) == Schedulers().front());
  ExperimentSpec spec;
  spec.scheduler = {.name = "asha", .version = 9};
  CHECK(SchedulerOf(spec).table().name == "asha");  // A version that is not here: the newest.
}
