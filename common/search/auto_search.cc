#include "common/search/auto_search.h"

#include "common/base/status.h"
#include "common/search/auto.h"
#include "common/search/given_options.h"
#include "common/search/gp_outcomes.h"
#include "common/search/model_searcher.h"
#include "common/search/tpe.h"

namespace rt {
namespace {

absl::Status CheckAutoSpace(const Space& space) {
  absl::Status status = Encoding::Of(space).status();
  if (status.ok()) return status;
  return SpecError(SpecPathOf(status), "auto does not search a grid", "write choice, or use basic");
}

AlgorithmTable MakeAutoTable(uint32_t version) {
  return {
      .kind = AlgorithmKind::kSearch,
      .name = "auto",
      .version = version,
      .meaning = "Chooses among the others by the space, the scheduler and the number of trials",
      .options = GivenOptions(),
      .needs_metric = true,
      .knows_outcomes = true,
      .reads_rungs = version >= 2,
      .check_space = CheckAutoSpace};
}

// With several objectives or constraints: GP-BO while its time is worth it, and TPE.
constexpr uint64_t kOutcomesTpeFrom = 500;

AutoPart PartForOutcomes(const Encoding& encoding, uint64_t number) {
  const bool is_large = encoding.axes().size() > kGpAxesMax || number >= kOutcomesTpeFrom;
  return is_large ? AutoPart::kTpe : AutoPart::kGp;
}

// Version 1 did not look at the scheduler.
AutoFacts FactsOf(const ExperimentSpec& spec) {
  AutoFacts facts{.max_concurrent = spec.max_concurrent};
  if (spec.search.version < 2) return facts;
  const AlgorithmTable* scheduler = FindTable(AlgorithmKind::kScheduler, spec.scheduler.name);
  facts.has_rungs = scheduler != nullptr && scheduler->has_rungs;
  return facts;
}

class AutoModel final : public PointModel {
 public:
  AutoModel(const ExperimentSpec& spec, uint64_t seed)
      : PointModel(spec, seed), seed_(seed), version_(spec.search.version),
        has_outcomes_(!spec.OutcomeKeys().empty()) {
    if (trials().status().ok() && !has_outcomes_)
      optimizer_.emplace(trials().encoding(), seed, FactsOf(spec), version_);
  }

 protected:
  std::optional<Point> PointOf(const Observations& seen, uint64_t number,
                               const GiveUp& give_up) override {
    const Encoding& encoding = trials().encoding();
    if (!has_outcomes_) {
      std::optional<Point> point = optimizer_->Suggest(seen, number, give_up);
      Note(optimizer_->belief());
      return point;
    }
    if (PartForOutcomes(encoding, number) == AutoPart::kGp) {
      std::optional<GpAnswer> answer =
          SuggestGpOutcomes(encoding, seen, seed_, number, AutoGpOptions(version_), give_up);
      return answer.has_value() ? std::optional(std::move(answer->point)) : std::nullopt;
    }
    std::optional<TpeAnswer> answer =
        SuggestTpe(encoding, seen, seed_, number, AutoTpeOptions(version_), give_up);
    return answer.has_value() ? std::optional(std::move(answer->point)) : std::nullopt;
  }

 private:
  const uint64_t seed_;
  const uint32_t version_;
  const bool has_outcomes_;  // Several objectives, or constraints.
  // Empty: the space cannot be searched, or there are outcomes.
  std::optional<AutoOptimizer> optimizer_;
};

class AutoSearcher final : public ModelSearcher<AutoModel> {
 public:
  explicit AutoSearcher(uint32_t version) : ModelSearcher(MakeAutoTable(version)) {}

  std::string Explain(const ExperimentSpec& spec) const override {
    const absl::StatusOr<Encoding> encoding = Encoding::Of(spec.space);
    if (!encoding.ok()) return "";
    if (!spec.OutcomeKeys().empty()) {
      const bool is_gp = PartForOutcomes(*encoding, 0) == AutoPart::kGp;
      const std::string what = spec.objectives.empty()
                                   ? "constraints"
                                   : std::to_string(spec.objectives.size()) + " objectives";
      if (!is_gp) return "tpe: " + what;
      const bool is_long = spec.TrialsTotal().value_or(UINT64_MAX) > kOutcomesTpeFrom;
      return std::string("gp") +
             (is_long ? ", from trial " + std::to_string(kOutcomesTpeFrom) + " on tpe" : "") +
             ": " + what;
    }
    return TextOf(ChooseSearch(*encoding, FactsOf(spec), spec.search.version), spec.TrialsTotal());
  }
};

}  // namespace

const Searcher& AutoSearch() {
  static const AutoSearcher searcher(kAutoVersion);
  return searcher;
}

const Searcher& AutoSearchWithOldGp() {
  static const AutoSearcher searcher(4);
  return searcher;
}

const Searcher& AutoSearchWithOldTpe() {
  static const AutoSearcher searcher(3);
  return searcher;
}

const Searcher& AutoSearchUnstretched() {
  static const AutoSearcher searcher(2);
  return searcher;
}

const Searcher& AutoSearchWithoutRungs() {
  static const AutoSearcher searcher(1);
  return searcher;
}

}  // namespace rt
