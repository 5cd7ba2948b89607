// The kinds of owner that attempts run for (a trial, a job's driver, an executor) as one table.
// Where they differ the core asks the owner's row; everything else about attempts is the same.
// A new kind adds an enumerator of Owner::Kind, its two lines in common/base/ids.cc, and one row.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "head/core/desired.h"
#include "head/core/draft.h"

namespace rt {

// Only `runs` is asked of an owner that may not exist.
struct OwnerPolicy {
  Owner::Kind kind = Owner::Kind::kNone;

  // State.
  const Runs* (*runs)(const State& state, const Owner& owner) = nullptr;  // Null: there is none.
  // All of the kind, in a fixed order.
  void (*each)(const State& state, const std::function<void(const Owner&)>& visit) = nullptr;
  bool (*is_over)(const State& state, const Owner& owner) = nullptr;
  bool (*is_stopping)(const State& state, const Owner& owner) = nullptr;
  bool (*may_run)(const State& state, const Owner& owner) = nullptr;  // It is to run, or runs.
  Millis (*created_at)(const State& state, const Owner& owner) = nullptr;
  // Whose it is. Tasks and actors that its programs ask for are of the same user.
  const std::string& (*user)(const State& state, const Owner& owner) = nullptr;

  // What it asks for, and the experiment whose limits, rules and priority hold for it; null: none.
  const ResourceRequest& (*request)(const World& world, const Owner& owner) = nullptr;
  ExperimentIndex* (*experiment)(World& world, const Owner& owner) = nullptr;

  // Why it does not run although there may be capacity; null: there is never such a reason.
  Waiting (*why_held)(const World& world, const Owner& owner) = nullptr;

  // The trial whose rows its programs report; null, or nothing returned: rows decide nothing.
  const Trial* (*trial)(const State& state, const Owner& owner) = nullptr;

  // Called by Apply. `rows` and `checkpoint` are null where its programs neither report nor save:
  // such an attempt is not asked to save before its node goes.
  void (*apply_placed)(World& world, const event::AttemptPlaced& event, Millis at) = nullptr;
  void (*apply_ended)(World& world, const Owner& owner) = nullptr;
  // Null where attempts are not resized: it asks for so many ranks from here on; and its live
  // attempt continues from a checkpoint (0: from the start).
  void (*apply_size)(World& world, const Owner& owner, uint32_t ranks) = nullptr;
  void (*apply_resized)(World& world, const AttemptId& attempt, uint64_t checkpoint) = nullptr;
  void (*apply_rows)(World& world, const event::ReportsAccepted& event, Attempt& live) = nullptr;
  void (*apply_checkpoint)(World& world, const event::CheckpointCommitted& event,
                           Checkpoint& checkpoint) = nullptr;
  // Rebuilds what the index has of all owners of the kind.
  void (*reindex)(World& world) = nullptr;

  // Called by Step once an attempt has ended: the owner ends, or waits for another attempt.
  void (*after_attempt)(Draft& draft, const event::AttemptEnded& ended) = nullptr;
  // The program of one rank, and everything that it needs.
  void (*fill_launch)(const World& world, const Attempt& attempt, LaunchSpec& launch) = nullptr;

  bool saves() const { return apply_checkpoint != nullptr; }
};

// Null: no such kind.
const OwnerPolicy* FindPolicy(Owner::Kind kind);
const OwnerPolicy& PolicyOf(const Owner& owner);
// In the order in which their owners are indexed after a restart: jobs before their experiments.
const std::vector<const OwnerPolicy*>& OwnerPolicies();
// For a test with a kind of its own; the row must outlive the process.
void AddOwnerPolicy(const OwnerPolicy& policy);

// The rows: trial_policy.cc, job_policy.cc, executor_policy.cc.
extern const OwnerPolicy kTrialPolicy;
extern const OwnerPolicy kJobPolicy;
extern const OwnerPolicy kExecutorPolicy;

// Also of an owner that does not exist.
bool IsOver(const State& state, const Owner& owner);
// The user whose the owner is.
const std::string& UserOf(const State& state, const Owner& owner);
// The experiment whose limits, rules and priority hold for the owner; null: none.
ExperimentIndex* ExperimentOf(World& world, const Owner& owner);
const ExperimentIndex* ExperimentOf(const World& world, const Owner& owner);

// The trial whose rows the owner's programs report; null: none.
const Trial* ReportingTrial(const State& state, const Owner& owner);

// The ranks of one of its attempts.
uint32_t RanksOf(const World& world, const Owner& owner, const Attempt& attempt);

}  // namespace rt
