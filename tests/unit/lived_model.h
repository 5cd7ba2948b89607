// A search over a mixed space, and the test that a model which lived through a search proposes what
// a new one does.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/algorithms/registry.h"
#include "common/base/json.h"
#include "common/base/rng.h"

namespace rt {

inline constexpr char kMixedSpace[] =
    R"({"x":{"uniform":[0,1]},"n":{"randint":[1,20]},"kind":{"choice":["a","b","c"]},"fixed":3})";

inline double MixedLoss(const Json& params) {
  const double x = params.GetDouble("x") - 0.7, n = params.GetDouble("n") - 12;
  return x * x + n * n / 100 + (params.GetString("kind") == "b" ? 0 : 0.5);
}

struct LivedSearch {
  size_t trials = 40;
  uint64_t patience_max = 40;  // Questions to `gives_up`, before a proposal is given up.
  double retried = 0.01;       // The share of ended trials that run again, each turn.
};

// Gives each ended trial a loss, a bad end or none, and some ended ones back to the search.
inline void EndSome(const std::vector<Json>& params, double retried, int64_t now, Rng& rng,
                    std::vector<TrialResult>& results) {
  using Kind = TrialResult::Kind;
  for (size_t i = 0; i < results.size(); ++i) {
    TrialResult& result = results[i];
    if (result.kind == Kind::kOpen && rng.Chance(0.4)) {
      const double loss = MixedLoss(params[i]);
      const uint64_t draw = rng.Below(10);
      const Kind end = draw == 0 ? Kind::kBad : draw == 1 ? Kind::kUnknown : Kind::kValue;
      result = {end, end == Kind::kValue ? loss : 0, now};
    } else if (result.kind != Kind::kOpen && rng.Chance(retried)) {
      result = {};
    }
  }
}

// Does what the compute lane does: asks for batches, takes back what was proposed, makes the model
// give up now and then, and asks again while trials end in any order, fail, are lost or run again.
inline void CheckLivedModel(const ExperimentSpec& spec, uint64_t seed, const LivedSearch& search) {
  Rng rng(seed, 1);
  const auto lived = SearcherOf(spec).MakeModel(spec, seed);
  std::vector<TrialResult> results;
  std::vector<Json> params;
  for (int64_t now = 1; results.size() < search.trials; ++now) {
    if (rng.Chance(0.3)) {
      uint64_t patience = rng.Below(search.patience_max);
      const auto gives_up = [&] { return patience == 0 || --patience == 0; };
      (void)lived->Propose(results, gives_up);
    }
    const auto fresh = SearcherOf(spec).MakeModel(spec, seed);
    for (const Json& each : params) fresh->AddTrial(each);
    const uint64_t from = results.size(), batch = 1 + rng.Below(3);
    for (uint64_t i = 0; i < batch; ++i) {
      const absl::StatusOr<Json> one = lived->Propose(results, {});
      REQUIRE(one.ok());
      REQUIRE(fresh->Propose(results, {})->Dump() == one->Dump());
      lived->AddTrial(*one);
      fresh->AddTrial(*one);
      params.push_back(*one);
      results.push_back({});
    }
    lived->ForgetFrom(from);
    for (uint64_t i = from; i < params.size(); ++i) lived->AddTrial(params[i]);
    EndSome(params, search.retried, now, rng, results);
  }
}

}  // namespace rt
