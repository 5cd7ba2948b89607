// What search algorithms that are models have in common (docs/checklists.md): a new one gives its
// table of options and a class of its model. A number without an answer of the model gets its
// scrambled Sobol point.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/search/searcher.h"
#include "common/search/sobol_search.h"
#include "common/search/trial_history.h"

namespace rt {

// `Model` is a SearchModel, made from (const ExperimentSpec&, uint64_t seed).
template <typename Model>
class ModelSearcher : public Searcher {
 public:
  explicit ModelSearcher(AlgorithmTable table) : table_(std::move(table)) {}

  const AlgorithmTable& table() const override { return table_; }
  std::optional<Json> Propose(const ExperimentSpec& spec, uint64_t seed,
                              uint64_t number) const override {
    return SobolConfiguration(spec, seed, number);
  }
  bool is_model() const override { return true; }
  std::unique_ptr<SearchModel> MakeModel(const ExperimentSpec& spec, uint64_t seed) const override {
    return std::make_unique<Model>(spec, seed);
  }

 private:
  const AlgorithmTable table_;
};

// A model that proposes points of the encoded space. The first trials take the configurations that
// the spec gives them.
class PointModel : public SearchModel {
 public:
  PointModel(const ExperimentSpec& spec, uint64_t seed) : trials_(spec, seed) {}

  void AddTrial(const Json& params) final { trials_.Add(params); }
  void ForgetFrom(uint64_t number) final { trials_.ForgetFrom(number); }
  absl::StatusOr<Json> Propose(const std::vector<TrialResult>& results,
                               const GiveUp& give_up) final {
    belief_.reset();
    RT_RETURN_IF_ERROR(trials_.status());
    const uint64_t number = results.size();
    if (std::optional<Json> given = trials_.GivenTo(number)) return *std::move(given);
    const std::optional<Point> point = PointOf(trials_.SeenIn(results), number, give_up);
    if (!point.has_value()) return absl::DeadlineExceededError("it takes too long");
    return trials_.ConfigurationAt(*point);
  }
  std::optional<ModelBelief> belief() const final { return belief_; }

 protected:
  // The point of trial `number`; nullopt: `give_up` said so. Only asked of a space that is encoded.
  virtual std::optional<Point> PointOf(const Observations& seen, uint64_t number,
                                       const GiveUp& give_up) = 0;
  const TrialHistory& trials() const { return trials_; }
  // PointOf calls Note with the model's expectations, whose numbers and signs are those of `seen`.
  void Note(const std::optional<ModelBelief>& belief) {
    if (belief.has_value()) belief_ = trials_.AsReported(*belief);
  }

 private:
  TrialHistory trials_;
  std::optional<ModelBelief> belief_;
};

}  // namespace rt
