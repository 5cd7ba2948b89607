#include "cli/commands/acting.h"

#include <cstdio>

#include "common/base/status.h"

namespace rt {
namespace {

// A noun as the acting verbs need it; Id is uint64_t or TrialId.
template <class Id>
struct Acting {
  const char* kind;
  std::function<absl::StatusOr<std::vector<Id>>(HeadClient&, const std::string&)> choose;
  std::function<absl::StatusOr<Json>(HeadClient&, Id)> get;
  std::function<absl::Status(HeadClient&, Id)> act;
};

template <class Id>
absl::StatusOr<Json> ActOnOne(HeadClient& client, const Invocation& invocation,
                              const Action& action, const Acting<Id>& noun, Id id) {
  std::string said = action.said;
  RT_ASSIGN_OR_RETURN(Json item, noun.get(client, id));
  if (action.ends && IsTerminal(item.GetString("state"))) {
    said = "is already over: " + item.GetString("state");
  } else {
    RT_RETURN_IF_ERROR(noun.act(client, id));
    RT_ASSIGN_OR_RETURN(item, noun.get(client, id));
  }
  const Json* found = item.Find("id");
  Json name = found == nullptr ? Json() : *found;
  if (invocation.output == Output::kTable)
    std::fprintf(stderr, "%s %s %s\n", noun.kind, CellText(&name).c_str(), said.c_str());
  return ActedItem(std::move(name), noun.kind, item.GetString("state"));
}

template <class Id>
ExitCode ActOnEach(const Invocation& invocation, const Action& action, const Acting<Id>& noun) {
  if (invocation.words.empty())
    return Invalid(std::string("name ") + (noun.kind[0] == 'e' ? "an " : "a ") + noun.kind,
                   action.example);
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<Id> chosen, noun.choose(*client, SelectorOf(invocation)));
  Json::Array items;
  for (Id id : chosen) {
    RT_ASSIGN_OR_RETURN(Json item, ActOnOne(*client, invocation, action, noun, id));
    items.push_back(std::move(item));
  }
  PrintActed(invocation, action.name, std::move(items));
  return kExitOk;
}

}  // namespace

ExitCode ActOnExperiments(const Invocation& invocation, const Action& action,
                          const ActOnNumber& act) {
  return ActOnEach<uint64_t>(invocation, action,
                             {"experiment", ChooseExperiments, GetExperiment, act});
}

ExitCode ActOnTrials(const Invocation& invocation, const Action& action, const ActOnTrial& act) {
  return ActOnEach<TrialId>(invocation, action,
                            {"trial", ChooseTrials, GetTrial, [&](HeadClient& client, TrialId id) {
                               return act(client, RefOf(id));
                             }});
}

ExitCode ActOnJobs(const Invocation& invocation, const Action& action, const ActOnNumber& act) {
  return ActOnEach<uint64_t>(invocation, action, {"job", ChooseJobs, GetJob, act});
}

ExitCode ActOnExecutors(const Invocation& invocation, const Action& action,
                        const ActOnNumber& act) {
  return ActOnEach<uint64_t>(invocation, action, {"executor", ChooseExecutors, GetExecutor, act});
}

ExitCode ActOnNodes(const Invocation& invocation, const Action& action, const ActOnNumber& act) {
  const auto get = [](HeadClient& client, uint64_t id) {
    return GetNode(client, std::to_string(id));
  };
  return ActOnEach<uint64_t>(invocation, action, {"node", ChooseNodes, get, act});
}

Json ActedItem(Json id, const char* kind, const std::string& state) {
  return Json::MakeObject({{"id", std::move(id)}, {"kind", kind}, {"state", state}});
}

void PrintActed(const Invocation& invocation, const char* action, Json::Array items) {
  if (invocation.output == Output::kQuiet)
    for (const Json& item : items) std::puts(CellText(item.Find("id")).c_str());
  if (invocation.output == Output::kJson)
    PrintJson(Json::MakeObject({{"schema", 1}, {"action", action}, {"items", Json(items)}}));
}

void PrintCluster(const Invocation& invocation, const std::string& name, const char* state,
                  Json ended) {
  if (invocation.output == Output::kQuiet) std::puts(name.c_str());
  if (invocation.output == Output::kJson)
    PrintJson(Json::MakeObject({{"cluster", Json::MakeObject({{"name", name}, {"state", state}})},
                                {"ended", std::move(ended)}}));
}

}  // namespace rt
