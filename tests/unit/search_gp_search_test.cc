// GP-BO and `auto` as experiments name them: their tables, their spaces, and their models.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "common/algorithms/registry.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/search/auto.h"
#include "common/search/auto_search.h"
#include "common/search/gp_search.h"
#include "tests/unit/lived_model.h"

using namespace rt;

namespace {

absl::StatusOr<ExperimentSpec> ModelledSpec(const std::string& space, const std::string& search,
                                            const std::string& more = "") {
  auto json = Json::Parse(R"({"experiment":"e","command":["x"],"metric":"loss","mode":"min",)" +
                          more + R"("search":)" + search + R"(,"space":)" + space + "}");
  REQUIRE(json.ok());
  return ParseExperimentSpec(*json);
}

Encoding EncodingOf(const std::string& space) {
  return *Encoding::Of(*ParseSpace(*Json::Parse(space), "space"));
}

std::string Numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += (i > 0 ? ",\"x" : "{\"x") + std::to_string(i) + R"(":{"uniform":[0,1]})";
  return text + "}";
}

}  // namespace

TEST_CASE("gp search: the options have the defaults of GpOptions, and reach the model") {
  const AlgorithmTable& table = GpSearch().table();
  CHECK(table.needs_metric);
  const GpOptions defaults = GpOptionsFrom(DefaultsOf(table));
  CHECK(defaults.noise_chance == GpDefaults(kGpVersion).noise_chance);
  CHECK(defaults.noise_chance > 0);
  CHECK(defaults.history_max == GpOptions{}.history_max);
  CHECK(defaults.local_every == GpOptions{}.local_every);
  const auto spec =
      ModelledSpec(kMixedSpace, R"({"gp":{"startup_trials":4,"history_max":50,"local_every":0,)"
                                R"("noise_chance":0.25}})");
  REQUIRE(spec.ok());
  const GpOptions given = GpOptionsFrom(spec->search);
  CHECK(given.noise_chance == 0.25);
  CHECK(given.startup_trials == 4);
  CHECK(given.history_max == 50);
  CHECK(given.local_every == 0);
  CHECK(MessageOf(ModelledSpec(kMixedSpace, R"({"gp":{"history_max":19}})").status()) ==
        "search/gp/history_max: must be a whole number between 20 and 1000");
}

TEST_CASE("gp search: spaces that it cannot search are refused, with what to use instead") {
  for (const std::string name : {"gp", "auto"}) {
    const absl::Status status =
        ModelledSpec(R"({"a":{"x":{"grid":[1,2]}}})", "\"" + name + "\"").status();
    CHECK(MessageOf(status) == "space/a/x: " + name + " does not search a grid");
    CHECK(HintOf(status) == "write choice, or use basic");
  }
  const absl::Status status = ModelledSpec(Numbers(kGpAxesMax + 1), R"("gp")").status();
  CHECK(MessageOf(status) == "space: gp searches at most 100 parameters");
  CHECK(HintOf(status) == "use tpe");
}

TEST_CASE("gp search and auto: a model that lived through a search proposes what a new one does") {
  for (const char* search : {R"({"gp":{"startup_trials":4}})", R"("auto")"}) {
    const auto spec = ModelledSpec(kMixedSpace, search);
    REQUIRE(spec.ok());
    for (uint64_t seed = 0; seed < 2; ++seed) {
      INFO(search << seed);
      CheckLivedModel(*spec, seed, {.trials = 24, .patience_max = 900, .retried = 0.02});
    }
  }
}

TEST_CASE("gp search: the largest and smallest ranges that a spec may have are drawn from") {
  for (const char* domain :
       {R"({"uniform":[-1e300,1e300]})", R"({"loguniform":[1e-300,1e300]})",
        R"({"randn":[1e300,1e300]})", R"({"quniform":[0,9e15,1]})",
        R"({"qloguniform":[1e-300,1e-290,1e-300]})", R"({"qrandn":[0,1e14,1]})"}) {
    INFO(domain);
    const auto spec = ModelledSpec(std::string(R"({"x":)") + domain + "}", R"("gp")");
    REQUIRE(spec.ok());
    const auto model = SearcherOf(*spec).MakeModel(*spec, 7);
    std::vector<TrialResult> results;
    for (int i = 0; i < 14; ++i) {
      const absl::StatusOr<Json> params = model->Propose(results, {});
      REQUIRE(params.ok());
      REQUIRE(std::isfinite(params->Find("x")->AsDouble()));
      model->AddTrial(*params);
      results.push_back({TrialResult::Kind::kValue, (i % 7) * 1e307, i});
    }
  }
}

TEST_CASE("auto: it chooses by the space and by how many trials run at once, and says why") {
  const auto text = [](const std::string& space, int64_t max_concurrent,
                       std::optional<uint64_t> trials) {
    return TextOf(ChooseSearch(EncodingOf(space), {.max_concurrent = max_concurrent}), trials);
  };
  CHECK(text(Numbers(4), 0, std::nullopt) ==
        "gp, from trial 50 on gp and cmaes in turn, from trial 250 on cmaes: 4 parameters, all of "
        "them numbers");
  CHECK(text(Numbers(4), 16, 40) == "gp: 4 parameters, all of them numbers");
  CHECK(text(Numbers(20), 0, 51) ==
        "gp, from trial 50 on gp and cmaes in turn: 20 parameters, all of them numbers");
  CHECK(text(Numbers(21), 0, 40) == "cmaes: 21 parameters, all of them numbers");
  CHECK(text(Numbers(101), 0, 40) == "tpe: 101 parameters");
  CHECK(text(Numbers(4), 64, 40) == "tpe: 64 trials may run at once");
  CHECK(text(kMixedSpace, 0, 40) == "gp: 3 parameters, 2 of them numbers");
  CHECK(text(R"({"a":{"choice":["p","q"]},"b":{"choice":["p","q"]},"c":{"uniform":[0,1]}})", 0,
             40) == "tpe: 2 of 3 parameters are categories");
  CHECK(text(R"({"o":{"choice":["p","q"]},"w":{"uniform":[0,1]},
                 "a":{"if":{"o":"p"},"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}}})",
             0, 300) ==
        "gp, from trial 50 on gp and tpe in turn, from trial 250 on tpe: 1 of 4 parameters is a "
        "category, and 2 are numbers that only some configurations have");
  CHECK(text(R"({"w":{"uniform":[0,1]},"x":{"uniform":[0,1],"if":{"w":{">=":0.5}}},
                 "y":{"uniform":[0,1],"if":{"w":{">=":0.5}}}})",
             0, 40) == "gp: 2 of 3 parameters are numbers that only some configurations have");
  CHECK(text(R"({"o":{"choice":["p","q"]},"w":{"choice":["p","q"]},
                 "a":{"if":{"o":"p"},"x":{"uniform":[0,1]}}})",
             0, 40) ==
        "tpe: 2 of 3 parameters are categories, and 1 is a number that only some configurations "
        "have");
  CHECK(text(R"({"a":3})", 0, 40) == "tpe: no parameter varies");
}

TEST_CASE("auto: with rungs it is mobster, or bohb where a process over the space is too much") {
  const auto text = [](const std::string& space, int64_t max_concurrent) {
    const AutoFacts facts{.max_concurrent = max_concurrent, .has_rungs = true};
    return TextOf(ChooseSearch(EncodingOf(space), facts), 40);
  };
  CHECK(text(Numbers(4), 16) ==
        "mobster: 4 parameters, all of them numbers, and trials are compared at rungs");
  CHECK(text(Numbers(21), 0) ==
        "bohb: 21 parameters, all of them numbers, and trials are compared at rungs");
  CHECK(text(Numbers(4), 64) == "bohb: 64 trials may run at once");
  CHECK(text(Numbers(101), 0) == "bohb: 101 parameters");
}

TEST_CASE("auto: each scheduler that has rungs is one for mobster, since version 2") {
  size_t with_rungs = 0;
  for (const AlgorithmTable* table : AlgorithmTables(AlgorithmKind::kScheduler)) {
    INFO(table->name);
    if (table->changes_params) continue;  // Refused beside a search that learns.
    const auto spec =
        ModelledSpec(kMixedSpace, R"("auto")", R"("scheduler":")" + table->name + R"(",)");
    REQUIRE(spec.ok());
    const bool has_rungs = SearcherOf(*spec).Explain(*spec).find("mobster: ") == 0;
    CHECK(has_rungs == table->has_rungs);
    const Scheduler& scheduler = SchedulerOf(*spec);
    const uint32_t last = scheduler.BracketCount(*spec) - 1;
    CHECK(has_rungs == (scheduler.LimitsOf(*spec, last).milestones.size() > 1));
    with_rungs += has_rungs ? 1 : 0;
    ExperimentSpec earlier = *spec;
    earlier.search.version = 1;
    CHECK(SearcherOf(earlier).Explain(earlier).find("gp") == 0);
    CHECK(!SearcherOf(earlier).table().reads_rungs);
    earlier.search.version = 2;
    CHECK(SearcherOf(earlier).Explain(earlier) == SearcherOf(*spec).Explain(*spec));
  }
  CHECK(with_rungs == 4);
}

TEST_CASE("auto: with rungs its proposals are those of mobster, since version 2") {
  const std::string scheduler = R"("scheduler":{"asha":{"max_t":9}},)";
  auto spec = ModelledSpec(kMixedSpace, R"("auto")", scheduler);
  auto other = ModelledSpec(kMixedSpace, R"("mobster")", scheduler);
  REQUIRE((spec.ok() && other.ok()));
  CHECK(spec->search.version == kAutoVersion);
  CHECK(other->search.version == 2);
  if (GENERATE(false, true)) {
    spec->search.version = 2;
    other->search.version = 1;
  }
  const auto chosen = SearcherOf(*spec).MakeModel(*spec, 7);
  const auto plain = SearcherOf(*other).MakeModel(*other, 7);
  std::vector<TrialResult> results;
  for (int i = 0; i < 40; ++i) {
    const absl::StatusOr<Json> params = chosen->Propose(results, {});
    REQUIRE(params.ok());
    CHECK(params->Dump() == plain->Propose(results, {})->Dump());
    chosen->AddTrial(*params);
    plain->AddTrial(*params);
    // Most are bad: the versions of mobster scale such values differently.
    const double value = params->GetDouble("x") > 0.45 ? 0.9 : 0.02 + 0.1 * MixedLoss(*params);
    results.push_back({TrialResult::Kind::kValue, value, i});
    results.back().rungs = {{1, value}, {kTrainedToTheEnd, value}};
  }
}

TEST_CASE("auto: where it chooses tpe, it is version 3 since version 4, and version 1 before") {
  const char* const space =
      R"({"kind":{"choice":["a","b"]},"b":{"if":{"kind":"b"},"y":{"uniform":[0,1]},
      "z":{"uniform":[0,1]}},"a":{"if":{"kind":"a"},"x":{"uniform":[0,1]}}})";
  auto spec = ModelledSpec(space, R"("auto")", R"("max_concurrent":33,)");
  auto other = ModelledSpec(space, R"("tpe")");
  REQUIRE((spec.ok() && other.ok()));
  REQUIRE(SearcherOf(*spec).Explain(*spec).find("tpe") == 0);
  CHECK(other->search.version == 3);
  const auto proposals = [](const ExperimentSpec& each) {
    const auto model = SearcherOf(each).MakeModel(each, 7);
    std::vector<TrialResult> results;
    std::string all;
    for (int i = 0; i < 40; ++i) {
      const absl::StatusOr<Json> params = model->Propose(results, {});
      REQUIRE(params.ok());
      all += params->Dump();
      model->AddTrial(*params);
      const Json* b = params->Find("b");
      const double value = b == nullptr ? 0.3 : b->GetDouble("y") + b->GetDouble("z") - 0.5;
      results.push_back({TrialResult::Kind::kValue, value, i});
    }
    return all;
  };
  const std::string newest = proposals(*spec);
  CHECK(newest == proposals(*other));
  spec->search.version = 3;
  other->search.version = 1;
  CHECK(proposals(*spec) == proposals(*other));
  CHECK(proposals(*spec) != newest);
}

// 40 proposals of a search whose values have an error of their own for each configuration.
std::string NoisyProposals(const ExperimentSpec& spec) {
  const auto model = SearcherOf(spec).MakeModel(spec, 7);
  std::vector<TrialResult> results;
  std::string all;
  Rng rng(1, 2);
  for (int i = 0; i < 40; ++i) {
    const absl::StatusOr<Json> params = model->Propose(results, {});
    REQUIRE(params.ok());
    all += params->Dump();
    model->AddTrial(*params);
    results.push_back({TrialResult::Kind::kValue, MixedLoss(*params) + 0.5 * rng.Normal(), i});
  }
  return all;
}

TEST_CASE("gp search: version 1, which journals may name, takes values to be exact") {
  auto spec = ModelledSpec(kMixedSpace, R"("gp")");
  REQUIRE(spec.ok());
  CHECK(spec->search.version == kGpVersion);
  CHECK(&SearcherOf(*spec) == &GpSearch());
  const std::string newest = NoisyProposals(*spec);
  // The spec as the first version wrote it: without the option that it did not have.
  spec->search.version = 1;
  spec->search.options = *Json::Parse(R"({"history_max":400})");
  CHECK(&SearcherOf(*spec) == &GpSearchWithoutNoise());
  CHECK(GpOptionsFrom(spec->search).noise_chance == 0);
  const std::string first = NoisyProposals(*spec);
  CHECK(first != newest);
  // `auto` has version 2 of it since its version 5.
  auto chosen = ModelledSpec(kMixedSpace, R"("auto")");
  REQUIRE(chosen.ok());
  CHECK(NoisyProposals(*chosen) == newest);
  chosen->search.version = 4;
  CHECK(&SearcherOf(*chosen) == &AutoSearchWithOldGp());
  CHECK(NoisyProposals(*chosen) == first);
}

TEST_CASE("auto: where conditions decide it begins with gp since version 5, and is tpe before") {
  auto spec =
      ModelledSpec(R"({"kind":{"choice":["a","b"]},"b":{"if":{"kind":"b"},"y":{"uniform":[0,1]},
      "z":{"uniform":[0,1]}},"a":{"if":{"kind":"a"},"x":{"uniform":[0,1]}}})",
                   R"("auto")", R"("num_samples":60,)");
  REQUIRE(spec.ok());
  CHECK(SearcherOf(*spec).Explain(*spec).find("gp, from trial 50 on gp and tpe in turn") == 0);
  for (const uint32_t version : {4u, 3u, 2u}) {
    spec->search.version = version;
    CHECK(SearcherOf(*spec).Explain(*spec).find("tpe: ") == 0);
  }
}

TEST_CASE("auto: its proposals are those of what it chose, and the table explains itself") {
  const auto spec = ModelledSpec(kMixedSpace, R"("auto")", R"("num_samples":60,)");
  REQUIRE(spec.ok());
  CHECK(SearcherOf(*spec).Explain(*spec) ==
        "gp, from trial 50 on gp and cmaes in turn: 3 parameters, 2 of them numbers");
  const auto gp = ModelledSpec(kMixedSpace, R"("gp")");
  REQUIRE(gp.ok());
  CHECK(SearcherOf(*gp).Explain(*gp).empty());
  const auto chosen = SearcherOf(*spec).MakeModel(*spec, 7);
  const auto plain = SearcherOf(*gp).MakeModel(*gp, 7);
  std::vector<TrialResult> results;
  size_t equal = 0;
  for (int i = 0; i < 56; ++i) {
    const absl::StatusOr<Json> params = chosen->Propose(results, {});
    REQUIRE(params.ok());
    if (i < 50) CHECK(params->Dump() == plain->Propose(results, {})->Dump());
    else equal += params->Dump() == plain->Propose(results, {})->Dump() ? 1 : 0;
    chosen->AddTrial(*params);
    plain->AddTrial(*params);
    results.push_back({TrialResult::Kind::kValue, MixedLoss(*params), i});
  }
  CHECK(equal == 4);  // Of 50 to 55, numbers 50 and 53 are those of cmaes.
}
