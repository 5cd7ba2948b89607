#include "head/core/owner_policy.h"

#include "common/base/check.h"

namespace rt {
namespace {

std::vector<const OwnerPolicy*>& Table() {
  static std::vector<const OwnerPolicy*> table = {&kJobPolicy, &kTrialPolicy, &kExecutorPolicy};
  return table;
}

}  // namespace

const OwnerPolicy* FindPolicy(Owner::Kind kind) {
  for (const OwnerPolicy* policy : Table())
    if (policy->kind == kind) return policy;
  return nullptr;
}

const OwnerPolicy& PolicyOf(const Owner& owner) {
  const OwnerPolicy* policy = FindPolicy(owner.kind);
  RT_CHECK_BECAUSE(policy != nullptr, "the kind of an attempt's owner is not in the table");
  return *policy;
}

const std::vector<const OwnerPolicy*>& OwnerPolicies() { return Table(); }

void AddOwnerPolicy(const OwnerPolicy& policy) {
  RT_CHECK(FindPolicy(policy.kind) == nullptr);
  Table().push_back(&policy);
}

const Runs* FindRuns(const State& state, const Owner& owner) {
  const OwnerPolicy* policy = FindPolicy(owner.kind);
  return policy == nullptr ? nullptr : policy->runs(state, owner);
}

Runs* FindRuns(State& state, const Owner& owner) {
  return const_cast<Runs*>(FindRuns(static_cast<const State&>(state), owner));
}

bool IsOver(const State& state, const Owner& owner) {
  return FindRuns(state, owner) == nullptr || PolicyOf(owner).is_over(state, owner);
}

const std::string& UserOf(const State& state, const Owner& owner) {
  return PolicyOf(owner).user(state, owner);
}

const ResourceRequest& RequestOf(const World& world, const Owner& owner) {
  return PolicyOf(owner).request(world, owner);
}

ExperimentIndex* ExperimentOf(World& world, const Owner& owner) {
  const OwnerPolicy& policy = PolicyOf(owner);
  return policy.experiment == nullptr ? nullptr : policy.experiment(world, owner);
}

const ExperimentIndex* ExperimentOf(const World& world, const Owner& owner) {
  return ExperimentOf(const_cast<World&>(world), owner);
}

const Trial* ReportingTrial(const State& state, const Owner& owner) {
  const OwnerPolicy& policy = PolicyOf(owner);
  return policy.trial == nullptr ? nullptr : policy.trial(state, owner);
}

uint32_t RanksOf(const World& world, const Owner& owner, const Attempt& attempt) {
  return attempt.ranks != 0 ? attempt.ranks : RequestOf(world, owner).ranks;
}

}  // namespace rt
