// A search algorithm: it proposes the configurations of trials. The registry (common/algorithms)
// lists them; docs/checklists.md says how to add one. One constant object per algorithm and
// version, without state of its own: an answer is a function of its arguments alone, so that
// every answer of a journal can be recomputed. Pure.
//
// What is cheap and exact is proposed inside Step. A model learns from results: MakeModel gives
// what the compute lane runs, and Propose is what a number gets when the model has no answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/json.h"
#include "common/search/model.h"
#include "common/spec/experiment_spec.h"

namespace rt {

class Searcher {
 public:
  Searcher() = default;
  Searcher(const Searcher&) = delete;
  Searcher& operator=(const Searcher&) = delete;
  virtual ~Searcher() = default;

  virtual const AlgorithmTable& table() const = 0;
  // The configuration of trial `number`, an object; nullopt: the search is exhausted. It is asked
  // for numbers below spec.TrialsTotal() only, each once, ascending. It must be cheap and exact: it
  // runs inside Step. A model has a configuration for every number.
  virtual std::optional<Json> Propose(const ExperimentSpec& spec, uint64_t seed,
                                      uint64_t number) const = 0;
  // What it does in this experiment and why, one sentence without its full stop, for `rt plan` and
  // `rt exp show`; empty: nothing beyond its name and options.
  virtual std::string Explain(const ExperimentSpec& /*spec*/) const { return {}; }
  // Whether it learns from results: then the compute lane asks MakeModel's object.
  virtual bool is_model() const { return false; }
  virtual std::unique_ptr<SearchModel> MakeModel(const ExperimentSpec& /*spec*/,
                                                 uint64_t /*seed*/) const {
    return nullptr;
  }
};

}  // namespace rt
