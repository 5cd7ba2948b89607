// The plateau rule: what it ends, how it is written, and how it comes back from the journal.
#include "common/spec/plateau.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/base/status.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/journalled_spec.h"

using namespace rt;

namespace {

absl::StatusOr<ExperimentSpec> PlateauSpec(const std::string& stop, const char* mode = "min") {
  return ParseExperimentSpec(
      *Json::Parse(R"({"experiment":"e","command":["x"],"metric":"loss","mode":")" +
                   std::string(mode) + R"(","stop":)" + stop + "}"));
}

// After which of the values, counted from 1, the trial ends; 0: after none.
size_t EndOf(const PlateauRule& rule, const std::vector<double>& values) {
  PlateauWindow window;
  for (size_t i = 0; i < values.size(); ++i) {
    window = Extended(rule, window, 1, 1, {values[i]});
    if (IsPlateau(rule, window)) return i + 1;
  }
  return 0;
}

}  // namespace

TEST_CASE("plateau: a trial ends once its last values agree, and not within the grace period") {
  const PlateauRule rule{.metric = "loss", .std = 0.1, .num_results = 3, .grace_period = 4};
  CHECK(EndOf(rule, {5, 1, 1, 1}) == 4);
  CHECK(EndOf(rule, {1, 1, 1, 1}) == 4);  // Three agree before that.
  CHECK(EndOf(rule, {5, 4, 3, 2, 1, 1, 1}) == 7);
  CHECK(EndOf(rule, {1, 1.3, 1, 1.3, 1, 1.3}) == 0);
  CHECK(EndOf({.metric = "loss", .num_results = 5, .grace_period = 0}, {2, 2, 2, 2, 2}) == 5);
  CHECK(EndOf({.metric = "loss", .std = 0, .grace_period = 0}, {0.1, 0.1, 0.1, 0.1}) == 4);
}

TEST_CASE("plateau: a value that is not a number is none") {
  const PlateauRule rule{.metric = "loss", .num_results = 3};
  CHECK(EndOf(rule, {1, 1, NAN, 1, 1, 1}) == 6);
  CHECK(EndOf(rule, {INFINITY, INFINITY, INFINITY, INFINITY}) == 0);
}

TEST_CASE("plateau: with a threshold only a trial that has reached it ends") {
  PlateauRule rule{.metric = "acc", .num_results = 2, .grace_period = 0, .metric_threshold = 0.9};
  CHECK(EndOf(rule, {0.5, 0.5, 0.5, 0.9, 0.9}) == 5);
  rule.at_most = true;
  CHECK(EndOf(rule, {1.5, 1.5, 0.9, 0.9}) == 4);
}

TEST_CASE("plateau: another attempt, and another generation, begin to count anew") {
  const PlateauRule rule{.metric = "loss", .num_results = 2, .grace_period = 3};
  PlateauWindow window = Extended(rule, {}, 1, 1, {1, 1});
  CHECK_FALSE(IsPlateau(rule, window));
  CHECK(IsPlateau(rule, Extended(rule, window, 1, 1, {1})));
  CHECK_FALSE(IsPlateau(rule, Extended(rule, window, 2, 1, {1})));
  CHECK_FALSE(IsPlateau(rule, Extended(rule, window, 1, 2, {1})));
  window = Extended(rule, window, 1, 1, std::vector<double>(100, 1.0));
  CHECK(window.count == 102);
  CHECK(window.values.size() == 2);
}

TEST_CASE("plateau: defaults are Ray's, and a rule comes back from the journal") {
  const auto plain = PlateauSpec(R"({"training_iteration":9,"plateau":{}})");
  REQUIRE(plain.ok());
  CHECK(plain->plateau.metric == "loss");
  CHECK(plain->plateau.std == 0.01);
  CHECK(plain->plateau.num_results == 4);
  CHECK(plain->plateau.grace_period == 4);
  CHECK(plain->plateau.at_most);
  CHECK(plain->stop.size() == 1);
  const auto full = PlateauSpec(R"({"plateau":{"metric":"acc","std":0.5,"num_results":7,)"
                                R"("grace_period":0,"metric_threshold":0.25,"mode":"max"}})");
  REQUIRE(full.ok());
  const auto back = ReadJournalledExperiment({"", NormalText(*full), kSpecFormat});
  CHECK(back.warnings.empty());
  CHECK(NormalPlateau(back.spec.plateau) == NormalPlateau(full->plateau));
  CHECK(back.spec.plateau.metric_threshold == 0.25);
  CHECK(back.spec.plateau.num_results == 7);
  CHECK_FALSE(back.spec.plateau.at_most);
}

TEST_CASE("plateau: what is written wrongly is refused, with its place") {
  const auto refused = [](const std::string& plateau) {
    return MessageOf(PlateauSpec(R"({"plateau":)" + plateau + "}").status());
  };
  CHECK(refused(R"({"std":-1})") == "stop/plateau/std: must be a number of 0 or more");
  CHECK(refused(R"({"num_results":0})") ==
        "stop/plateau/num_results: must be a whole number between 1 and 256");
  CHECK(refused(R"({"mode":"most"})") == "stop/plateau/mode: must be max or min");
  CHECK(refused(R"({"metric":"acc","metric_threshold":1})") ==
        "stop/plateau/metric_threshold: needs the mode of 'acc'");
  CHECK(refused(R"({"patience":3})").find("stop/plateau") == 0);
  CHECK(refused(R"({"metric":""})") == "stop/plateau/metric: must be the name of a reported value");
  CHECK(refused("3") ==
        "stop/plateau: must be a map of the rule's options, for example {std: 0.001}");
  CHECK(MessageOf(PlateauSpec(R"({"experiment_plateau":3})").status()) ==
        "stop/experiment_plateau: must be a map of the rule's options, for example {std: 0.001}");
  // A metric of that name has its threshold as a comparison.
  const auto metric = PlateauSpec(R"({"plateau":{"<=":3}})");
  REQUIRE(metric.ok());
  CHECK(metric->stop.size() == 1);
  CHECK_FALSE(metric->plateau.is_given());
}
