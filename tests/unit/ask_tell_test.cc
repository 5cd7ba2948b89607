// Ask and tell without a cluster: what is proposed, in which order, and after a restart.
#include "common/algorithms/ask_tell.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

using namespace rt;

namespace {

constexpr char kLine[] = R"({"x":{"uniform":[0,1]}})";

ExperimentSpec SpecOf(const std::string& search, const std::string& space, int samples) {
  auto json = Json::Parse(R"({"experiment":"e","command":["x"],"metric":"loss","mode":"min",)"
                          R"("num_samples":)" +
                          std::to_string(samples) + R"(,"search":)" + search + R"(,"space":)" +
                          space + "}");
  REQUIRE(json.ok());
  auto spec = ParseExperimentSpec(*json);
  REQUIRE(spec.ok());
  return *spec;
}

double XOf(const std::string& params) { return Json::Parse(params)->GetDouble("x"); }

// A trial that is asked for, and told unless it is every third one: those stay open.
void Turn(AskTell& search, std::vector<AskTell::Trial>& trials) {
  trials.push_back(*search.Ask());
  const AskTell::Trial& trial = trials.back();
  const double x = XOf(trial.params);
  if (trial.number % 3 == 0) return;
  REQUIRE(search.Tell(trial.number, {TrialResult::Kind::kValue, (x - 0.3) * (x - 0.3)}).ok());
}

}  // namespace

TEST_CASE("ask and tell: a model finds the minimum, and proposes the same after a restart") {
  for (const char* name : {R"("tpe")", R"("cmaes")", R"("gp")", R"("auto")", R"("bohb")",
                           R"("dehb")", R"("mobster")"}) {
    const ExperimentSpec spec = SpecOf(name, kLine, -1);
    AskTell search(spec, 7);
    std::vector<AskTell::Trial> trials;
    for (int i = 0; i < 45; ++i) Turn(search, trials);
    CHECK(trials.back().fallback.empty());
    AskTell again(spec, 7);
    for (const AskTell::Trial& trial : trials) again.Add(trial.params);
    double best = 1;
    for (const AskTell::Trial& trial : trials) {
      if (trial.number % 3 == 0) continue;
      const double x = XOf(trial.params), value = (x - 0.3) * (x - 0.3);
      best = std::min(best, value);
      REQUIRE(again.Tell(trial.number, {TrialResult::Kind::kValue, value}).ok());
    }
    INFO(name);
    CHECK(best < 1e-3);
    CHECK(again.Ask()->params == search.Ask()->params);
  }
}

TEST_CASE("ask and tell: a result is told once, of a trial that was asked for") {
  AskTell search(SpecOf("\"basic\"", kLine, -1), 1);
  CHECK(absl::IsNotFound(search.Tell(0, {TrialResult::Kind::kBad})));
  REQUIRE(search.Ask()->number == 0);
  CHECK(search.Tell(0, {TrialResult::Kind::kBad}).ok());
  CHECK(absl::IsFailedPrecondition(search.Tell(0, {TrialResult::Kind::kValue, 1})));
  CHECK(search.Ask()->number == 1);
}

TEST_CASE("ask and tell: the end of a range is proposed once") {
  for (const char* name : {R"("gp")", R"("mobster")", R"("auto")", R"("tpe")", R"("cmaes")"}) {
    INFO(name);
    ExperimentSpec spec = SpecOf(name, kLine, -1);
    REQUIRE(spec.compares_configurations);
    AskTell search(spec, 1);
    std::set<std::string> configurations;
    double most = 0;
    for (uint64_t number = 0; number < 30; ++number) {
      const AskTell::Trial trial = *search.Ask();
      CHECK(configurations.insert(trial.params).second);
      most = std::max(most, XOf(trial.params));
      REQUIRE(search.Tell(number, {TrialResult::Kind::kValue, 1 - XOf(trial.params)}).ok());
    }
    CHECK(most > 0.999);
  }
  // A search of an earlier release answers as it did.
  ExperimentSpec earlier = SpecOf(R"("gp")", kLine, -1);
  earlier.compares_configurations = false;
  AskTell search(earlier, 1);
  std::set<std::string> configurations;
  for (uint64_t number = 0; number < 30; ++number) {
    const AskTell::Trial trial = *search.Ask();
    configurations.insert(trial.params);
    REQUIRE(search.Tell(number, {TrialResult::Kind::kValue, 1 - XOf(trial.params)}).ok());
  }
  CHECK(configurations.size() < 20);
}

TEST_CASE("ask and tell: a grid is used up") {
  AskTell search(SpecOf("\"basic\"", R"({"x":{"grid":[1,2,3]}})", 1), 1);
  for (int x = 1; x <= 3; ++x) CHECK(XOf(search.Ask()->params) == x);
  CHECK(!search.Ask().has_value());
}
