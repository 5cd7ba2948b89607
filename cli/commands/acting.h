// The verbs that act on selected items: what they do to each, and what they print. People read a
// line of standard error per item; -o json prints one object (docs/json.md), -o quiet the ids.
#pragma once

#include <functional>
#include <string>

#include "cli/commands/common.h"

namespace rt {

struct Action {
  const char* name;     // "stop", as in the JSON.
  const char* example;  // The hint of a call without a selector.
  const char* said;     // What follows the item's name: "is stopping".
  bool ends = false;    // It is not tried on an item that is over, which is no error.
};

using ActOnNumber = std::function<absl::Status(HeadClient& client, uint64_t id)>;
using ActOnTrial = std::function<absl::Status(HeadClient& client, const v1::TrialRef& trial)>;

// Each acts on the items of the selector, one after the other, and ends at the first error.
ExitCode ActOnExperiments(const Invocation& invocation, const Action& action,
                          const ActOnNumber& act);
ExitCode ActOnTrials(const Invocation& invocation, const Action& action, const ActOnTrial& act);
ExitCode ActOnJobs(const Invocation& invocation, const Action& action, const ActOnNumber& act);
ExitCode ActOnExecutors(const Invocation& invocation, const Action& action, const ActOnNumber& act);
ExitCode ActOnNodes(const Invocation& invocation, const Action& action, const ActOnNumber& act);

// One item of the object that an acting verb prints. `state`: after the action was accepted.
Json ActedItem(Json id, const char* kind, const std::string& state);
// {"schema":1,"action":…,"items":[…]}, or the ids, or nothing: standard error has the lines.
void PrintActed(const Invocation& invocation, const char* action, Json::Array items);
// {"cluster":{"name","state"},"ended":[…]} of `rt up` and `rt down`, or the name. `state`: UP or
// DOWN; `ended`: what the command ended.
void PrintCluster(const Invocation& invocation, const std::string& name, const char* state,
                  Json ended);

}  // namespace rt
