// `rt executor show`, `rt executor stop`, `rt executor logs`, `rt actor list`.
#include "cli/commands/acting.h"
#include "common/base/status.h"

namespace rt {

ExitCode RunExecutorShow(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen,
                      ChooseExecutors(*client, SelectorOf(invocation)));
  std::vector<Json> items;
  for (uint64_t id : chosen) {
    RT_ASSIGN_OR_RETURN(Json item, GetExecutor(*client, id));
    items.push_back(std::move(item));
  }
  return PrintItems(invocation, Noun::kExecutor, std::move(items));
}

ExitCode RunExecutorStop(const Invocation& invocation) {
  const Action stop{"stop", "rt executor stop 7", "is stopping", true};
  return ActOnExecutors(invocation, stop, [&](HeadClient& client, uint64_t id) {
    return AskOperation(client, Json::MakeObject({{"op", "executor_stop"},
                                                  {"executor", id},
                                                  {"reason", invocation.reason}}))
        .status();
  });
}

ExitCode RunExecutorLogs(const Invocation& invocation) {
  const char* example = "rt executor logs 7";
  RT_RETURN_IF_ERROR(CheckSelectsOne(invocation, "logs are of one executor", example));
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen,
                      ChooseExecutors(*client, SelectorOf(invocation)));
  if (chosen.size() != 1) return Invalid("logs are of one executor", example);
  RT_ASSIGN_OR_RETURN(const Json item, GetExecutor(*client, chosen[0]));
  return CopyLogs(*client, invocation, Owner::Of(ExecutorId{chosen[0]}), item);
}

ExitCode RunActorList(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(
      const Json list,
      AskOperation(*client, Json::MakeObject({{"op", "actor_list"}, {"all", true}})));
  return PrintList(invocation, Noun::kActor, list);
}

}  // namespace rt
