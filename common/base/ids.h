// Strong identifiers of everything that the head names, and the fence that every message about a
// running process carries. Pure values: ordered, hashable by their order only, printed by ToString.
//
// Numbers count from 1, except those of trials, which count from 0 within their experiment.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rt {

template <class Tag>
struct Id {
  uint64_t value = 0;  // 0 means "none".
  friend auto operator<=>(const Id&, const Id&) = default;
};
using ExperimentId = Id<struct ExperimentTag>;
using JobId = Id<struct JobTag>;
using NodeId = Id<struct NodeTag>;
using ExecutorId = Id<struct ExecutorTag>;

// A trial's number counts from 0 within its experiment; people write "3/12".
struct TrialId {
  ExperimentId experiment;
  uint32_t number = 0;
  friend auto operator<=>(const TrialId&, const TrialId&) = default;
};

// Who an attempt runs for: a trial, a job's driver, or an executor of a driver's tasks. `group` is
// the number of the experiment, the job or the executor, `number` the trial's (0 for the others).
struct Owner {
  enum class Kind : uint8_t { kNone = 0, kTrial = 1, kJob = 2, kExecutor = 3 };
  Kind kind = Kind::kNone;
  uint64_t group = 0;
  uint32_t number = 0;
  friend auto operator<=>(const Owner&, const Owner&) = default;

  static Owner Of(TrialId id) { return {Kind::kTrial, id.experiment.value, id.number}; }
  static Owner Of(JobId id) { return {Kind::kJob, id.value, 0}; }
  static Owner Of(ExecutorId id) { return {Kind::kExecutor, id.value, 0}; }
  TrialId trial() const { return {{group}, number}; }
  JobId job() const { return {group}; }
  ExecutorId executor() const { return {group}; }
  bool is_trial() const { return kind == Kind::kTrial; }
  bool is_job() const { return kind == Kind::kJob; }
  bool is_executor() const { return kind == Kind::kExecutor; }
};

// One run of an owner on given nodes. A restart after a loss bumps `number`, a resize `generation`,
// which counts from 1 within the attempt.
struct AttemptId {
  Owner owner;
  uint32_t number = 0;
  uint32_t generation = 1;
  friend auto operator<=>(const AttemptId&, const AttemptId&) = default;
};

// The fence: a message whose fence is not the current one comes from a zombie and is dropped.
struct Fence {
  AttemptId attempt;
  uint32_t rank = 0;
  friend auto operator<=>(const Fence&, const Fence&) = default;
};

std::string ToString(TrialId id);                 // "3/12"
std::string ToString(const Owner& owner);         // "t3-12", "j4", "x7": safe in file names
std::string Describe(const Owner& owner);         // "trial 3/12", "job 4", "executor 7"
std::string ToString(const AttemptId& attempt);   // "t3-12.a2", "t3-12.a2.g3" beyond generation 1
std::string ToString(const Fence& fence);         // "t3-12.a2.r0"

// The inverse of ToString(Fence), for the names of run directories; nullopt when malformed.
std::optional<Fence> ParseFence(std::string_view text);
// "3/12" -> trial; nullopt when malformed.
std::optional<TrialId> ParseTrialId(std::string_view text);

}  // namespace rt
