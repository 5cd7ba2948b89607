// A search with a scheduler on simulated workers: what the head does with the rows of trials, in a
// virtual time in which a row takes one unit and all else nothing. It asks the head's own searchers
// and schedulers, in the order of common/decide/scheduler.h. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "common/algorithms/guarded_model.h"
#include "common/decide/scheduler.h"
#include "common/search/searcher.h"
#include "search/fidelity_problems.h"

namespace rt::bench {

class RungRace {
 public:
  // `search` and `scheduler` are those of a spec, JSON.
  RungRace(const FidelityProblem& problem, const std::string& search, const std::string& scheduler,
           size_t workers, uint64_t seed);

  // Until this time.
  void RunTo(int64_t time);
  // How far the configuration that looks best is from the minimum: the one with the best value at
  // the longest training time of any trial that was recorded or trained to its end.
  double Regret() const;
  size_t trials() const { return trials_.size(); }
  // The rows of all trials, up to the first one that reached the problem's target, which ends the
  // race; and the best value among them.
  size_t rows() const { return rows_taken_; }
  double best() const { return best_; }
  bool has_reached() const { return problem_.target.has_value() && best_ <= *problem_.target; }
  // Those that the model gave no answer for.
  size_t fallbacks() const { return fallbacks_; }

 private:
  struct RaceTrial {
    std::string params;
    std::vector<double> x;
    std::unique_ptr<Curve> curve;
    uint32_t bracket = 0;
    double trained = 0;
    std::set<double> recorded;
    bool runs = false, is_paused = false;
    TrialResult result;
    double best = HUGE_VAL;
  };
  struct Row {
    int64_t time;
    uint32_t trial;
    auto operator<=>(const Row&) const = default;
  };
  using Key = std::pair<uint32_t, double>;  // Bracket and milestone.

  void Fill();
  uint32_t Create();
  void TakeRow(uint32_t number);
  void Record(uint32_t number, double milestone, double value);
  void Apply(uint32_t number, const TrialVerdict& verdict);
  void End(uint32_t number, bool is_complete);
  void Review(std::optional<uint32_t> recorded);
  SearchReview ReviewNow() const;
  void AddBrackets(std::optional<uint32_t> also, SearchReview& review) const;
  PausedTrial AtRung(uint32_t number, SearchReview& review) const;
  void AddAllRungs(std::optional<uint32_t> bracket, SearchReview& review) const;

  const FidelityProblem& problem_;
  const size_t workers_;
  const uint64_t seed_;
  const ExperimentSpec spec_;
  const Searcher& searcher_;
  const Scheduler& scheduler_;
  std::optional<GuardedModel> model_;
  std::vector<TrialLimits> limits_;  // By bracket, again from the first one beyond the last.

  int64_t now_ = 0;
  std::vector<RaceTrial> trials_;
  std::map<Key, std::vector<RungMember>> rungs_;
  std::set<uint32_t> ready_;  // Resumed, and waiting for a worker.
  std::priority_queue<Row, std::vector<Row>, std::greater<>> rows_;
  size_t fallbacks_ = 0, rows_taken_ = 0;
  double best_ = HUGE_VAL;
};

}  // namespace rt::bench
