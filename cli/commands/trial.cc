// `rt trial show`, `rt trial stop`, `rt trial resize`, `rt trial logs`.
#include "cli/commands/acting.h"
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
  const Action stop{"stop", "rt trial stop 1/4", "is stopping", true};
  return ActOnTrials(invocation, stop, [&](HeadClient& client, const v1::TrialRef& trial) {
    v1::StopTrialRequest request;
    *request.mutable_trial() = trial;
    request.set_reason(invocation.reason);
    return client.Call<v1::ExperimentService>(&v1::ExperimentService::Stub::StopTrial, request)
        .status();
  });
}

ExitCode RunTrialResize(const Invocation& invocation) {
  const Action resize{"resize", "rt trial resize 1/4 --ranks 2",
                      "saves, and continues with another number of ranks"};
  return ActOnTrials(invocation, resize, [&](HeadClient& client, const v1::TrialRef& trial) {
    v1::ResizeTrialRequest request;
    *request.mutable_trial() = trial;
    request.set_ranks(invocation.ranks);
    return client.Call<v1::ExperimentService>(&v1::ExperimentService::Stub::ResizeTrial, request)
        .status();
  });
}

ExitCode RunTrialLogs(const Invocation& invocation) {
  RT_RETURN_IF_ERROR(CheckSelectsOne(invocation, "logs are of one trial", "rt trial logs 1/4"));
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<TrialId> chosen, ChooseTrials(*client, SelectorOf(invocation)));
  if (chosen.size() != 1) return Invalid("logs are of one trial", "rt trial logs 1/4");
  RT_ASSIGN_OR_RETURN(const Json item, GetTrial(*client, chosen[0]));
  return CopyLogs(*client, invocation, Owner::Of(chosen[0]), item);
}

}  // namespace rt
