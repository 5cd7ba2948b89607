// `rt exp show`, `rt exp stop`.
#include <cstdio>

#include "cli/commands/common.h"
#include "common/base/status.h"

namespace rt {

ExitCode RunExperimentShow(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen,
                      ChooseExperiments(*client, SelectorOf(invocation)));
  std::vector<Json> items;
  for (uint64_t id : chosen) {
    RT_ASSIGN_OR_RETURN(Json item, GetExperiment(*client, id));
    items.push_back(std::move(item));
  }
  return PrintItems(invocation, Noun::kExperiment, std::move(items));
}

ExitCode RunExperimentStop(const Invocation& invocation) {
  if (invocation.words.empty()) return Invalid("which experiment?", "rt exp stop 3");
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen,
                      ChooseExperiments(*client, SelectorOf(invocation)));
  for (uint64_t id : chosen) {
    v1::StopRequest request;
    request.set_experiment(id);
    request.set_reason(invocation.reason.empty() ? "stopped by a person" : invocation.reason);
    RT_RETURN_IF_ERROR(
        (client->Call<v1::ExperimentService>(&v1::ExperimentService::Stub::Stop, request))
            .status());
    std::fprintf(stderr, "experiment %llu is stopping\n", static_cast<unsigned long long>(id));
  }
  return kExitOk;
}

}  // namespace rt
