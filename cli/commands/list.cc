// The plain lists: `rt exp list`, `rt trial list`, `rt job list`, `rt node list`.
#include "cli/commands/common.h"
#include "common/base/status.h"

namespace rt {

ExitCode RunExperimentList(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(Json reply, ListExperiments(*client));
  return PrintList(invocation, Noun::kExperiment, std::move(reply));
}

ExitCode RunJobList(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(Json reply, ListJobs(*client));
  return PrintList(invocation, Noun::kJob, std::move(reply));
}

ExitCode RunNodeList(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(Json reply, ListNodes(*client));
  return PrintList(invocation, Noun::kNode, std::move(reply));
}

ExitCode RunTrialList(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  uint64_t experiment = 0;
  std::string selector =
      invocation.experiment.empty() ? FirstWord(invocation) : invocation.experiment;
  if (!selector.empty() && selector != "all") {
    RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen, ChooseExperiments(*client, selector));
    if (chosen.size() != 1) return Invalid("--exp takes one experiment");
    experiment = chosen[0];
  }
  RT_ASSIGN_OR_RETURN(Json reply, ListTrials(*client, experiment));
  return PrintList(invocation, Noun::kTrial, std::move(reply));
}

}  // namespace rt
