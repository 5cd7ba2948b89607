// The plateau rule of an experiment: what it ends, how it is written, and how it comes back from
// the journal.
#include "common/spec/experiment_plateau.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/journalled_spec.h"

using namespace rt;

namespace {

absl::StatusOr<ExperimentSpec> SearchEndSpec(const std::string& stop, const char* mode = "min") {
  return ParseExperimentSpec(
      *Json::Parse(R"({"experiment":"e","command":["x"],"metric":"loss","mode":")" +
                   std::string(mode) + R"(","stop":)" + stop + "}"));
}

// After which of the results, counted from 1, the search ends; 0: after none.
size_t SearchEndOf(const ExperimentPlateauRule& rule, const std::vector<double>& results) {
  BestValues best;
  for (size_t i = 0; i < results.size(); ++i) {
    best = Extended(rule, best, {results[i]});
    if (IsPlateau(rule, best)) return i + 1;
  }
  return 0;
}

// The rule in Ray's words: all results are sorted, the first `top` of them are compared.
size_t EndInWords(const ExperimentPlateauRule& rule, const std::vector<double>& results) {
  std::vector<double> seen;
  uint64_t iterations = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    seen.push_back(results[i]);
    std::sort(seen.begin(), seen.end());
    if (!rule.at_most) std::reverse(seen.begin(), seen.end());
    const size_t top = std::min<size_t>(rule.top, seen.size());
    double mean = 0, squares = 0;
    for (size_t k = 0; k < top; ++k) mean += seen[k] / static_cast<double>(top);
    for (size_t k = 0; k < top; ++k) squares += (seen[k] - mean) * (seen[k] - mean);
    const bool agree = top == rule.top && std::sqrt(squares / static_cast<double>(top)) <= rule.std;
    iterations = agree ? iterations + 1 : 0;
    if (agree && iterations >= rule.patience) return i + 1;
  }
  return 0;
}

}  // namespace

TEST_CASE("experiment plateau: a search ends once its best values agree for long enough") {
  ExperimentPlateauRule rule{.metric = "acc", .std = 0.1, .top = 3, .patience = 2};
  CHECK(SearchEndOf(rule, {1, 5, 5, 5, 5}) ==
        5);  // As Ray's stopper, and that of the Python package.
  CHECK(SearchEndOf(rule, {5, 5, 5, 9, 5, 9, 9, 9}) == 8);  // A better value begins anew.
  CHECK(SearchEndOf(rule, {5, 5, 5, 1, 2}) == 4);           // A worse one does not.
  rule.patience = 0;
  CHECK(SearchEndOf(rule, {1, 5, 5, 5}) == 4);
  rule.at_most = true;
  CHECK(SearchEndOf(rule, {9, 1, 1, 5, 1}) == 5);
  CHECK(SearchEndOf({.metric = "acc"}, std::vector<double>(9, 1.0)) == 0);  // Ten are compared.
  CHECK(SearchEndOf({.metric = "acc"}, std::vector<double>(10, 0.1)) == 10);
}

TEST_CASE("experiment plateau: what is not finite is no plateau") {
  const ExperimentPlateauRule rule{.metric = "acc", .std = 0.1, .top = 2, .patience = 0};
  CHECK(SearchEndOf(rule, {NAN, 1, NAN, 1}) == 4);
  CHECK(SearchEndOf(rule, {INFINITY, INFINITY, INFINITY}) == 0);
  CHECK(SearchEndOf(rule, {-INFINITY, -INFINITY, 1, 1}) == 4);
  // A result that is NaN is a result: the best values agree after it, too.
  ExperimentPlateauRule patient = rule;
  patient.patience = 3;
  CHECK(SearchEndOf(patient, {1, 1, NAN, NAN}) == 4);
}

TEST_CASE("experiment plateau: it ends a search where Ray's words do, in batches of any size") {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Rng rng(seed, 0);
    const ExperimentPlateauRule rule{.metric = "loss",
                                     .std = 0.25 * static_cast<double>(1 + rng.Below(4)) + 1e-9,
                                     .top = static_cast<uint32_t>(2 + rng.Below(5)),
                                     .patience = static_cast<uint32_t>(rng.Below(5)),
                                     .at_most = rng.Below(2) == 0};
    std::vector<double> results;
    for (int i = 0; i < 40; ++i) results.push_back(static_cast<double>(rng.Below(6)));
    CHECK(SearchEndOf(rule, results) == EndInWords(rule, results));
    BestValues one_by_one, at_once = Extended(rule, {}, results);
    for (double result : results) one_by_one = Extended(rule, one_by_one, {result});
    CHECK(one_by_one.values == at_once.values);
    CHECK(one_by_one.agreed == at_once.agreed);
    CHECK(at_once.values.size() == rule.top);
  }
}

TEST_CASE("experiment plateau: defaults are Ray's, and a rule comes back from the journal") {
  const auto plain = SearchEndSpec(R"({"training_iteration":9,"experiment_plateau":{}})");
  REQUIRE(plain.ok());
  CHECK(plain->experiment_plateau.metric == "loss");
  CHECK(plain->experiment_plateau.std == 0.001);
  CHECK(plain->experiment_plateau.top == 10);
  CHECK(plain->experiment_plateau.patience == 0);
  CHECK(plain->experiment_plateau.at_most);
  CHECK(plain->stop.size() == 1);
  CHECK_FALSE(plain->plateau.is_given());
  const auto full = SearchEndSpec(
      R"({"experiment_plateau":{"metric":"acc","std":0.5,"top":7,"patience":3,"mode":"max"}})");
  REQUIRE(full.ok());
  const auto back = ReadJournalledExperiment({"", NormalText(*full), kSpecFormat});
  CHECK(back.warnings.empty());
  CHECK(NormalExperimentPlateau(back.spec.experiment_plateau) ==
        NormalExperimentPlateau(full->experiment_plateau));
  CHECK(back.spec.experiment_plateau.metric == "acc");
  CHECK(back.spec.experiment_plateau.top == 7);
  CHECK(back.spec.experiment_plateau.patience == 3);
  CHECK_FALSE(back.spec.experiment_plateau.at_most);
}

TEST_CASE("experiment plateau: what is written wrongly is refused, with its place") {
  const auto refused = [](const std::string& plateau) {
    return MessageOf(SearchEndSpec(R"({"experiment_plateau":)" + plateau + "}").status());
  };
  const std::string at = "stop/experiment_plateau";
  CHECK(refused(R"({"std":-1})") == at + "/std: must be a number of 0 or more");
  CHECK(refused(R"({"top":1})") == at + "/top: must be a whole number between 2 and 256");
  CHECK(refused(R"({"patience":-1})") ==
        at + "/patience: must be a whole number between 0 and 4294967295");
  CHECK(refused(R"({"mode":"most"})") == at + "/mode: must be max or min");
  CHECK(refused(R"({"metric":"acc"})") == at + ": needs the mode of 'acc'");
  CHECK(refused(R"({"num_results":3})").find(at) == 0);
  CHECK(refused(R"({"metric":""})") == at + "/metric: must be the name of a reported value");
  const auto metric = SearchEndSpec(R"({"experiment_plateau":{"<=":3}})");
  REQUIRE(metric.ok());
  CHECK(metric->stop.size() == 1);
  CHECK_FALSE(metric->experiment_plateau.is_given());
}
