// `rt job show`, `rt job stop`, `rt job logs`.
#include "cli/commands/acting.h"
#include "common/base/status.h"

namespace rt {

ExitCode RunJobShow(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen, ChooseJobs(*client, SelectorOf(invocation)));
  std::vector<Json> items;
  for (uint64_t id : chosen) {
    RT_ASSIGN_OR_RETURN(Json item, GetJob(*client, id));
    items.push_back(std::move(item));
  }
  return PrintItems(invocation, Noun::kJob, std::move(items));
}

ExitCode RunJobStop(const Invocation& invocation) {
  const Action stop{"stop", "rt job stop 3", "is stopping", true};
  return ActOnJobs(invocation, stop, [&](HeadClient& client, uint64_t id) {
    v1::StopJobRequest request;
    request.set_job(id);
    request.set_reason(invocation.reason);
    return client.Call<v1::JobService>(&v1::JobService::Stub::Stop, request).status();
  });
}

ExitCode RunJobLogs(const Invocation& invocation) {
  RT_RETURN_IF_ERROR(CheckSelectsOne(invocation, "logs are of one job", "rt job logs 3"));
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen, ChooseJobs(*client, SelectorOf(invocation)));
  if (chosen.size() != 1) return Invalid("logs are of one job", "rt job logs 3");
  RT_ASSIGN_OR_RETURN(const Json item, GetJob(*client, chosen[0]));
  return CopyLogs(*client, invocation, Owner::Of(JobId{chosen[0]}), item);
}

}  // namespace rt
