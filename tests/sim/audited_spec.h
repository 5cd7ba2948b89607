// What the auditor reads of a specification, by itself.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/time.h"
#include "common/spec/resources.h"

namespace rt::sim {

// What an attempt asks for.
struct AuditedAsks {
  std::vector<Resources> bundles;
  uint32_t ranks = 1;
  std::string strategy = "PACK";
  std::string text;          // As it was written.
  uint32_t ranks_asked = 1;  // The same, before any resize.
  std::string text_asked;
  uint32_t ranks_max = 0;  // Of an elastic one, which asks for `ranks_asked` at least; 0: of none.

  bool MayResize() const;
  void Resize(uint32_t to);
  static AuditedAsks From(const Json* json, int64_t cpu_default);
};

// A bracket of a band of HyperBand.
struct AuditedBracket {
  double trials = 0;          // That it begins with.
  std::vector<double> rungs;  // Ascending; the last one is its trials' end.
};

// What the auditor reads from an experiment's JSON, by itself.
struct AuditedSpec {
  AuditedAsks asks;
  uint64_t grid = 1;  // Configurations per sample.
  std::optional<uint64_t> trials_total;
  int64_t max_failures = 0;
  int64_t max_concurrent = 0;
  int64_t priority = 0;
  bool fail_fast = false;
  bool maximise = false;
  bool asha = false;
  bool promotes = false;        // By the promotion variant of asha.
  bool is_progressive = false;  // And by PASHA, with this tolerance.
  double tolerance = 0;
  bool checks_ranks = false;  // Rungs that say nothing of the next ones are passed.
  bool halves = false;        // By HyperBand: `asha` too, with a band's brackets.
  double interval = 0;        // Of population based training; 0: it does none.
  bool synch = false;         // And its trials are compared together.
  bool explores = false;      // And a model on the compute lane proposes the configurations (PB2).
  double median_from = 0;     // The grace period of the median stopping rule; 0: it is not used.
  double max_t = 0, grace = 1, factor = 4;
  int64_t brackets = 1;
  double stop_at = 0;          // Of training_iteration; 0: no rule.
  bool has_plateau = false;    // Ends trials by the deviation of the last three losses.
  double plateau_std = 0;
  double best_std = -1;        // Of the three best losses, after two results in a row; -1: no rule.
  bool strict = true;          // A row without loss fails its trial.
  double loss_max = HUGE_VAL;  // A constraint: a row with more is never the best.
  Json space;
  std::set<std::string> stop_keys;             // Of the other stop rules.
  int64_t keep = 0;                            // Checkpoints; 0: all.
  bool reallocates = false;                    // Trials that save get other resources.
  bool scored = false, score_maximise = true;  // Kept by loss instead of age.
  std::string durable_after = "store";
  Millis time_budget = 0;
  // Of its driver.
  bool asks_driver = false, searches = false, schedules = false, selects_next = false;
  bool driver_explores = false, driver_allocates = false;
  std::string search = "basic";

  bool reads_rungs() const {
    return search == "bohb" || search == "dehb" || search == "mobster" || search == "auto";
  }
  bool has_model() const { return search != "basic" && !searches; }

  struct Rule {
    int exit_code = 0;  // 0: any.
    bool looks_at_log = false;
    std::string then;
  };
  std::vector<Rule> retry;
  int64_t hangs_allowed = 0;
  bool suspends = false;
  double link_gbps_least = 0;  // Between the nodes of a gang.
  int64_t breaker_trials = 5;

  void ReadPolicies(const Json& json);
  void ReadDriver(const Json& driver);
  void ReadScheduler(const Json& scheduler);
  void ReadPopulation(const Json& pbt);
  const Json* ReadPromotion(const Json& scheduler);  // Its options; null: it is another one.
  static AuditedSpec FromExperiment(const std::string& text);
  static AuditedSpec FromJob(const std::string& text);
  std::vector<double> Milestones(uint32_t bracket) const;  // Highest first.
  // Where trials of the bracket have trained to their end.
  double EndOf(uint32_t bracket) const { return halves ? Milestones(bracket).front() : max_t; }
  std::vector<AuditedBracket> Band() const;
};

}  // namespace rt::sim
