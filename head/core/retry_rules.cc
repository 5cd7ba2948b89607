// What an experiment's retry rules and its watchdog make of an attempt that failed or hung.
#include <algorithm>

#include "common/base/limits.h"
#include "common/base/strings.h"
#include "head/core/draft.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

constexpr int kSignalBase = 128;

bool RanThere(const Attempt& attempt, NodeId node) {
  for (const Member& member : attempt.members)
    if (member.node == node) return true;
  return false;
}

}  // namespace

const RetryRule* RuleOf(const ExperimentSpec& spec, uint32_t rule) {
  return rule == 0 || rule > spec.retry.size() ? nullptr : &spec.retry[rule - 1];
}

uint32_t FindRule(const World& world, const Observed& observed) {
  const ExperimentIndex* experiment = ExperimentOf(world, observed.fence.attempt.owner);
  if (experiment == nullptr) return 0;
  const std::vector<RetryRule>& rules = experiment->spec.retry;
  const int code = observed.signal != 0 ? kSignalBase + observed.signal : observed.exit_code;
  uint32_t pattern = 0;  // The worker knows the patterns by their order.
  for (uint32_t i = 0; i < rules.size(); ++i) {
    const bool logged = !rules[i].log.empty() && observed.log_matches.contains(pattern);
    if (rules[i].Matches(code, logged, observed.error.kind == kGpuOutOfMemory)) return i + 1;
    pattern += rules[i].log.empty() ? 0 : 1;
  }
  return 0;
}

void FollowRule(const Draft& draft, event::AttemptEnded& ended, NodeId node) {
  const World& world = draft.core.world;
  const ExperimentIndex* experiment = ExperimentOf(world, ended.attempt.owner);
  if (ended.rule == 0 || experiment == nullptr) return;
  const RetryRule* found = RuleOf(experiment->spec, ended.rule);
  if (found == nullptr) return;
  const RetryRule& rule = *found;
  const Runs& runs = *FindRuns(world.state, ended.attempt.owner);
  const bool is_bounded = rule.then != RetryAction::kFail;
  ended.excused = is_bounded && runs.excused < limits::kExcusedMax;
  if (rule.then == RetryAction::kExcludeNode) ended.excluded = node;
  ended.reason += "; retry rule " + std::to_string(ended.rule) + " says " +
                  RetryActionName(rule.then);
  if (is_bounded && !ended.excused)
    ended.reason += ", for the last time: it did " + std::to_string(runs.excused) + " times";
}

int PreflightsLost(const Runs& runs) {
  constexpr int32_t kNotStarted = 127;  // A worker reports it for what it did not start.
  int lost = 0;
  for (auto past = runs.attempts.rbegin(); past != runs.attempts.rend(); ++past) {
    if (past->ended_at == 0) continue;
    if (past->outcome != AttemptOutcome::kLost || past->exit_code != kNotStarted) break;
    ++lost;
  }
  return lost;
}

// The gpus of the node that said so could not be tested: its owner goes elsewhere, while it can.
void FollowPreflight(const Draft& draft, event::AttemptEnded& ended, NodeId node) {
  const State& state = draft.core.world.state;
  const Runs& runs = *FindRuns(state, ended.attempt.owner);
  if (ended.outcome == AttemptOutcome::kLost) ended.excluded = node;
  else if (ended.outcome == AttemptOutcome::kLaunchFailed)
    ended.reason += "; " + std::to_string(PreflightsLost(runs)) + " preflights before it failed";
  else return;
  std::vector<std::string> names;
  for (const Member& member : runs.attempts.back().members) {
    const auto found = state.nodes.find(member.node);
    const std::string name = found == state.nodes.end() ? "" : found->second.name;
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  ended.reason += "; on " + Join(names, ", ");
}

// After the second hang on one node that node is excluded.
void FollowHang(const Draft& draft, event::AttemptEnded& ended, NodeId node) {
  if (ended.outcome != AttemptOutcome::kHung) return;
  for (const Attempt& past : FindRuns(draft.core.world.state, ended.attempt.owner)->attempts)
    if (past.outcome == AttemptOutcome::kHung && RanThere(past, node)) ended.excluded = node;
}

}  // namespace rt
