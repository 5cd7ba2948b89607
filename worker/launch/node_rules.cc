#include "worker/launch/node_rules.h"

namespace rt::worker {
namespace {

using Environment = std::map<std::string, std::string>;

// A trial holds its gpus and sees no others.
constexpr NodeRules kTrial = {
    .name =
        [](const Owner& owner, Environment& env) {
          env["RT_EXPERIMENT_ID"] = std::to_string(owner.group);
          env["RT_TRIAL_ID"] = ToString(owner.trial());
        },
    .warm_module = "rt._trial",
};

// The driver of a job looks at the machine that it is on.
constexpr NodeRules kJob = {
    .name = [](const Owner& owner,
               Environment& env) { env["RT_JOB_ID"] = std::to_string(owner.group); },
    .sees_gpus_of_others = true,
};

// What the tasks of an executor wrote is their driver's business: nothing of it is stored.
constexpr NodeRules kExecutor = {
    .name = [](const Owner& owner,
               Environment& env) { env["RT_EXECUTOR_ID"] = std::to_string(owner.group); },
    .warm_module = "rt._executor",
    .keeps_outputs = false,
    .takes_connections = true,
};

// A kind that only a newer head knows.
constexpr NodeRules kUnknown = {.name = [](const Owner&, Environment&) {}};

}  // namespace

const NodeRules& RulesOf(const Owner& owner) {
  switch (owner.kind) {
    case Owner::Kind::kTrial: return kTrial;
    case Owner::Kind::kJob: return kJob;
    case Owner::Kind::kExecutor: return kExecutor;
    case Owner::Kind::kNone: break;
  }
  return kUnknown;
}

}  // namespace rt::worker
