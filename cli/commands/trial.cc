// `rt trial show`, `rt trial stop`, `rt trial logs`.
#include <cstdio>

#include "cli/commands/common.h"
#include "common/base/status.h"

namespace rt {

ExitCode RunTrialShow(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<TrialId> chosen, ChooseTrials(*client, SelectorOf(invocation)));
  std::vector<Json> items;
  for (TrialId id : chosen) {
    RT_ASSIGN_OR_RETURN(Json item, GetTrial(*client, id));
    items.push_back(std::move(item));
  }
  return PrintItems(invocation, Noun::kTrial, std::move(items));
}

ExitCode RunTrialStop(const Invocation& invocation) {
  if (invocation.words.empty()) return Invalid("which trial?", "rt trial stop 1/4");
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<TrialId> chosen, ChooseTrials(*client, SelectorOf(invocation)));
  for (TrialId id : chosen) {
    v1::StopTrialRequest request;
    *request.mutable_trial() = RefOf(id);
    request.set_reason(invocation.reason.empty() ? "stopped by a person" : invocation.reason);
    RT_RETURN_IF_ERROR(
        (client->Call<v1::ExperimentService>(&v1::ExperimentService::Stub::StopTrial, request))
            .status());
    std::fprintf(stderr, "trial %s is stopping\n", ToString(id).c_str());
  }
  return kExitOk;
}

ExitCode RunTrialLogs(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<TrialId> chosen, ChooseTrials(*client, SelectorOf(invocation)));
  if (chosen.size() != 1) return Invalid("logs are of one trial", "rt trial logs 1/4");
  return CopyLogs(*client, invocation, Owner::Of(chosen[0]));
}

}  // namespace rt
