#include <algorithm>
#include <catch2/catch.hpp>

#include "cli/render/best.h"
#include "cli/render/csv.h"
#include "cli/render/front.h"
#include "common/base/strings.h"

using namespace rt;

namespace {
Json Trial(int number, Json value, double lr) {
  Json params = Json::MakeObject({{"lr", lr}, {"width", 64}});
  Json best = value.is_null() ? Json() : Json::MakeObject({{"value", value}, {"step", 3}});
  return Json::MakeObject({{"id", "1/" + std::to_string(number)}, {"state", "COMPLETED"},
                           {"params", params}, {"best", best}});
}
std::vector<std::string> Ids(const BestTrials& best) {
  std::vector<std::string> ids;
  for (const Json& trial : best.trials()) ids.push_back(trial.GetString("id"));
  return ids;
}
}  // namespace

TEST_CASE("best: the best come first, ties in order, trials without a value never") {
  BestTrials least(false, 3), most(true, 2);
  std::vector<Json> trials = {Trial(0, 5, 0.1), Trial(1, 1.5, 0.001), Trial(2, Json(), 10),
                              Trial(3, 5, 0.01), Trial(4, "NaN", 1), Trial(5, 7, 1)};
  for (const Json& trial : trials) {
    least.Add(trial);
    most.Add(trial);
  }
  CHECK(Ids(least) == std::vector<std::string>{"1/1", "1/0", "1/3"});
  CHECK(Ids(most) == std::vector<std::string>{"1/5", "1/0"});
  auto lines = Split(least.Render("loss"), '\n');
  CHECK(lines[0] == "TRIAL  STATE      STEP  loss  lr");
  CHECK(lines[1] == "range                         0.001…10");
  CHECK(lines[2] == "1/1    COMPLETED  3     1.5   0.001 ▁");
  CHECK(lines[3] == "1/0    COMPLETED  3     5     0.1 ▅");  // Half way on a logarithmic scale.
  CHECK(lines[5] == "same in all trials: width=64");
  CHECK(BestTrials(true, 3).Render("loss").empty());
}

TEST_CASE("population: values that were compared, and parents") {
  const Json population = *Json::Parse(
      R"([{"trial":"1/0","score":0.5,"compared_at":4,"clones":2,"cloned_from":"1/3"},)"
      R"({"trial":"1/1","score":null,"compared_at":null,"clones":0,"cloned_from":null}])");
  const std::string text = RenderPopulation(population);
  CHECK(text.find("CLONED FROM") != std::string::npos);
  CHECK(text.find("1/3") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  CHECK(RenderPopulation(Json::MakeArray()).empty());
}

TEST_CASE("csv: what needs quotes has them, what is absent is empty") {
  CHECK(CsvHeader({"a", "b,c", "d\"e"}) == "a,\"b,c\",\"d\"\"e\"\n");
  Json row = Json::MakeObject({{"a", 0.1}, {"b,c", "x\ny"}, {"e", Json(Json::Array{1, 2})}});
  CHECK(CsvRow({"a", "b,c", "d\"e", "e"}, row) == "0.1,\"x\ny\",,\"[1,2]\"\n");
}

TEST_CASE("front: the trials that no other one beats, by the first objective") {
  const Json experiment = *Json::Parse(
      R"({"objectives":[{"metric":"loss","mode":"min"},{"metric":"speed","mode":"max"}],)"
      R"("constraints":{"memory":{"<=":8}}})");
  std::optional<FrontTrials> front = FrontTrials::Of(experiment);
  REQUIRE(front.has_value());
  CHECK_FALSE(FrontTrials::Of(*Json::Parse(R"({"objectives":null,"constraints":null})")));
  const auto add = [&](int number, const char* state, const char* metrics) {
    const Json params = Json::MakeObject({{"lr", number}, {"width", 64}});
    front->Add(Json::MakeObject({{"id", "1/" + std::to_string(number)},
                                 {"state", state},
                                 {"step", 3},
                                 {"params", params},
                                 {"metrics", *Json::Parse(metrics)}}));
  };
  CHECK(front->Render().empty());
  add(0, "COMPLETED", R"({"loss":3,"speed":9,"memory":1})");
  add(1, "COMPLETED", R"({"loss":1,"speed":5,"memory":8})");
  add(2, "COMPLETED", R"({"loss":4,"speed":4,"memory":1})");
  add(3, "FAILED", R"({"loss":0,"speed":9,"memory":1})");
  add(4, "COMPLETED", R"({"loss":0,"speed":9,"memory":9})");
  add(5, "RUNNING", R"({"loss":0,"speed":9})");
  std::vector<std::string> ids;
  for (const Json& trial : front->Front()) ids.push_back(trial.GetString("id"));
  CHECK(ids == std::vector<std::string>{"1/1", "1/0"});
  CHECK(front->Worst().Dump() == R"({"loss":4.0,"speed":4.0})");
  CHECK(front->Hypervolume() == 3 * 1 + 1 * 4);
  auto lines = Split(front->Render(), '\n');
  CHECK(lines[0] == "TRIAL  STATE      STEP  loss  speed  lr");
  CHECK(lines[1] == "1/1    COMPLETED  3     1     5      1");
  CHECK(lines[3] == "hypervolume 7, measured from the worst value of each objective");
  add(6, "COMPLETED", R"({"loss":"Infinity","speed":9,"memory":1})");
  add(7, "COMPLETED", R"({"loss":3.5,"speed":"-Infinity","memory":1})");
  CHECK(front->Worst().Dump() == R"({"loss":4.0,"speed":4.0})");
  CHECK(front->Hypervolume() == 7);
}
