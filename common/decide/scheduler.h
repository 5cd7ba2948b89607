// A scheduler: it ends trials early, pauses or clones them. The registry (common/algorithms) lists
// them; docs/checklists.md says how to add one. One constant object per algorithm and version,
// without state of its own: what it decides is a function of its arguments alone, and what it
// remembers of a search are the rungs that the head keeps for it. Pure.
//
// The head asks in this order: the bracket of a new trial; for each row of rank 0 OnRow; if that
// names a milestone, AtMilestone, before the trial's own value is recorded there, and Review after
// it; and at the end of each trial OnTrialEnd. The defaults are those of FIFO: every trial runs to
// its own end.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/spec/curve.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/space.h"

namespace rt {

// A scheduler's decision about a trial.
struct TrialVerdict {
  enum class Action {
    kContinue,
    kStop,      // Ended early: STOPPED.
    kComplete,  // It has trained as far as the scheduler lets any trial train: COMPLETED.
    kPause,     // It saves and ends, until the scheduler resumes it.
  };
  Action action = Action::kContinue;
  std::string reason;  // One sentence for people; empty where it continues.
};

// The decision about a row: a verdict, or a milestone at which `value` is recorded and judged.
struct RowVerdict {
  TrialVerdict verdict;
  std::optional<double> milestone;
  double value = 0;
};

struct SearchReview;

// The values recorded at a milestone of a bracket before the one that is decided now.
struct RungValues {
  uint32_t bracket = 0;
  double milestone = 0;
  const std::vector<double>& values;  // Ascending, without NaN.
  uint64_t recorded = 0;              // NaNs included.
  bool may_save = true;  // False: the trial has no checkpoint, and trials of its search save none.
  bool others_wait = true;               // As in SearchReview.
  bool others_queue = false;             // As in SearchReview, or other trials are paused.
  uint32_t trial = 0;                    // Whose value is decided.
  const SearchReview* review = nullptr;  // Only for one that compares brackets, or rungs.
};

// The trials that were recorded at a rung, in that order.
struct RungMember {
  uint32_t trial = 0;
  double value = 0;  // May be NaN.
};
struct RungMembers {
  uint32_t bracket = 0;
  double milestone = 0;
  std::vector<RungMember> members;
};
// A trial that the scheduler has paused, at the highest rung at which it was recorded.
struct PausedTrial {
  uint32_t number = 0;
  uint32_t bracket = 0;
  double milestone = 0;
  bool is_unsaved = false;  // It was suspended and has no checkpoint: it would begin again.
  bool is_live = false;     // Its attempt has not ended yet.
};
// A bracket with a trial that is paused or decided, of a scheduler that compares brackets as a
// whole.
struct BracketState {
  uint32_t number = 0;
  uint64_t created = 0;  // Trials, over or not.
  uint64_t open = 0;     // Trials that are neither over nor stopping, nor paused by the scheduler.
};
// A trial that is not over, of a scheduler that clones trials.
struct PopulationMember {
  uint32_t number = 0;
  double score = 0;                     // At the newest milestone; NaN: it was recorded at none.
  size_t comparisons = 0;               // How often it was recorded at one.
  uint64_t checkpoint = 0;              // The newest that the store has; 0: none.
  const std::string* params = nullptr;  // JSON.
  bool is_paused = false;               // By the scheduler, and its attempt has ended.
  uint64_t newest = 0;                  // The newest that the store or a node has; 0: none.
};
// The input of Scheduler::Review: the trials that it may resume, stop or clone.
struct SearchReview {
  std::vector<RungMembers> rungs;   // Those at which a trial is paused; or all (compares_rungs).
  std::vector<PausedTrial> paused;  // By number.
  bool is_idle = false;             // No trial runs or waits for nodes, and the search has no more.
  bool has_completed = false;       // A trial of the search was COMPLETED.
  bool others_come = false;         // The search may create more trials.
  bool others_wait = false;         // Or trials that are not paused wait for nodes.
  // The driver has no more trials until one ends, and only paused ones are left: others_come and
  // others_wait are false, and is_idle is, too.
  bool search_waits = false;
  // Trials of a bounded search that nobody has paused wait for nodes, or are still to be created.
  bool others_queue = false;
  // Only for a scheduler that compares brackets.
  std::vector<BracketState> brackets;  // By number.
  std::optional<PausedTrial> arrived;  // Has just been recorded at a milestone, and is not paused.
  // Only for a scheduler that clones trials.
  std::optional<uint32_t> recorded;  // The trial that has just been recorded at a milestone.
  std::vector<PopulationMember> population;
  uint64_t seed = 0;                                       // Of the experiment.
  Json (*draw)(const Domain& domain, Rng& rng) = nullptr;  // A value of the domain.
};
struct ReviewStop {
  uint32_t trial = 0;
  std::string reason;
};
struct ReviewClone {
  uint32_t trial = 0;
  uint32_t from = 0;
  uint64_t checkpoint = 0;
  Json params;
};
struct ReviewVerdict {
  std::vector<uint32_t> resumed;  // Those that should run first come first.
  std::vector<ReviewStop> stopped;
  std::vector<ReviewClone> clones;
};

// What is known of a population whose scheduler explores by a model: how much better a trial became
// per unit of the time attribute between two milestones, with the configuration that it had.
struct ExploreSample {
  double time = 0;     // Of the second one.
  double change = 0;   // More is better.
  std::string params;  // JSON.
  friend bool operator==(const ExploreSample&, const ExploreSample&) = default;
};
// Which configuration a trial of the lowest quantile gets, which is to continue from trial `from`.
struct ExploreQuestion {
  uint32_t trial = 0;
  uint32_t from = 0;
  uint64_t comparisons = 0;  // How often the trial was recorded at a milestone.
  std::string base;          // JSON: the configuration of `from`.
  double time = 0;           // The trial's newest milestone.
  std::vector<ExploreSample> samples;
  std::vector<std::string> pending;  // JSON: the configurations of the other open trials.
  friend bool operator==(const ExploreQuestion&, const ExploreQuestion&) = default;
};

// What the trial's own side must know to report and to end exactly where the scheduler decides.
struct TrialLimits {
  std::string time_attr = "training_iteration";
  std::vector<double> milestones;  // Of its bracket, ascending.
  std::optional<double> max_t;     // As far as any trial trains.
  bool ends_at_max_t = false;
};

// The part of a trial that a scheduler reads.
struct ScheduledTrial {
  uint32_t number = 0;
  uint32_t bracket = 0;
  const std::set<double>& recorded;  // The milestones at which it was recorded before.
  const TrialLimits& limits;         // What LimitsOf says of its bracket.
  // Only where CurvesFrom asks for curves.
  std::optional<double> best = {};  // Of its values, that of the row included.
  std::vector<const std::vector<CurvePoint>*> others = {};  // The curves of the other trials.
};

// How a search would go, for `rt plan`.
struct SchedulePlan {
  Json brackets;       // [{bracket, share, rungs: [{milestone, trials}]}]; null: it has none.
  Json share_of_full;  // Of what all trials would train to their end; null: unknown.
};

class Scheduler {
 public:
  Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  virtual ~Scheduler() = default;

  virtual const AlgorithmTable& table() const = 0;
  // The bracket of trial `number`, drawn by counter.
  virtual uint32_t BracketOf(const ExperimentSpec&, uint64_t /*seed*/, uint64_t /*number*/) const {
    return 0;
  }
  // LimitsOf is asked for the brackets from 0 to this number, exclusive, and begins again with 0
  // for those beyond.
  virtual uint32_t BracketCount(const ExperimentSpec&) const { return 1; }
  // Asked once for each bracket of an experiment.
  virtual TrialLimits LimitsOf(const ExperimentSpec&, uint32_t /*bracket*/) const { return {}; }
  // From this time on, in units of the time attribute, the head keeps the running mean of each
  // trial's metric, and shows those of the other trials to OnRow; null: it does not.
  virtual std::optional<double> CurvesFrom(const ExperimentSpec&) const { return std::nullopt; }
  virtual RowVerdict OnRow(const ExperimentSpec&, const ScheduledTrial&, const RowView&) const {
    return {};
  }
  virtual TrialVerdict AtMilestone(const ExperimentSpec&, const RungValues&,
                                   double /*value*/) const {
    return {};
  }
  // Whether OnTrialEnd is to be asked: it pauses trials.
  virtual bool pauses_trials() const { return false; }
  // `paused`: trials that this scheduler has paused, ascending. Returns those that it resumes now
  // that trial `ended` is over.
  virtual std::vector<uint32_t> OnTrialEnd(const ExperimentSpec&, uint32_t /*ended*/,
                                           const std::vector<uint32_t>& /*paused*/) const {
    return {};
  }
  // Whether Review is to be asked: after each row that was recorded at a rung, after the end of
  // each attempt, and when nothing else of the search can run.
  virtual bool reviews_trials() const { return false; }
  // Whether SearchReview::brackets is filled in.
  virtual bool compares_brackets() const { return false; }
  // Whether SearchReview::rungs has all rungs, and not only those at which a trial is paused. It is
  // given at milestones, too.
  virtual bool compares_rungs(const ExperimentSpec&) const { return false; }
  // Whether Review may clone trials. SearchReview::population is then filled in after a trial was
  // recorded, and Review is asked after each placement as well.
  virtual bool clones_trials() const { return false; }
  // Whether Review reads SearchReview::population also when no trial was recorded, while some are
  // paused.
  virtual bool compares_population(const ExperimentSpec&) const { return true; }
  // True: Review keeps a trial paused until the store has its newest checkpoint. Review then also
  // runs at each tick while trials are paused.
  virtual bool waits_for_store() const { return false; }
  // Whether the configurations of clones come from a model on the compute lane, which answers an
  // ExploreQuestion. Review then clones no trial, and ParentOf is asked for each trial that was
  // recorded at a milestone.
  virtual bool explores_on_lane() const { return false; }
  // The trial whose checkpoint the recorded trial is to take; nullopt: none.
  virtual std::optional<uint32_t> ParentOf(const ExperimentSpec&, const SearchReview&) const {
    return std::nullopt;
  }
  // Resumes or stops trials that this scheduler has paused, or clones trials.
  virtual ReviewVerdict Review(const ExperimentSpec&, const SearchReview&) const { return {}; }
  virtual SchedulePlan PlanOf(const ExperimentSpec&, std::optional<uint64_t> /*trials*/) const {
    return {};
  }
};

}  // namespace rt
