// `rt logs [-f] TRIAL|JOB|NODE`: "1/4" or "t4" is a trial, "3" or "j3" a job, "n2" or a name a
// node.
#include "cli/commands/common.h"
#include "common/base/status.h"

namespace rt {
namespace {

// "j3" -> 'j' and "3"; "job 3" likewise. 0 when the word says nothing of its kind.
char KindOfWord(const std::vector<std::string>& words, std::string& rest) {
  rest = words.back();
  if (words.size() == 2) return words[0].empty() ? '\0' : words[0][0];
  bool letter = rest.size() > 1 && std::string("jtn").find(rest[0]) != std::string::npos;
  if (letter && rest.find_first_not_of("0123456789", 1) == std::string::npos) {
    char kind = rest[0];
    rest.erase(0, 1);
    return kind;
  }
  return rest.find('/') == std::string::npos ? '\0' : 't';
}

}  // namespace

ExitCode RunLogs(const Invocation& invocation) {
  const std::vector<std::string>& words = invocation.words;
  if (words.empty() || words.size() > 2)
    return Invalid("name a trial, job or node",
                   "rt logs -f 1/4 (a trial), j3 (a job), worker-1 (a node)");
  Invocation chosen = invocation;
  std::string word;
  char kind = KindOfWord(words, word);
  chosen.words = {word};
  if (kind == 't') return RunTrialLogs(chosen);
  if (kind == 'j') return RunJobLogs(chosen);
  if (kind == 'n') return RunNodeLogs(chosen);
  if (kind != '\0') return Invalid("'" + words[0] + "' has no logs", "write trial, job or node");
  // A number is a job before it is a trial; another word is a name.
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(chosen));
  absl::Status job = ChooseJobs(*client, word).status();
  if (!absl::IsNotFound(job)) return job.ok() ? RunJobLogs(chosen) : job;
  absl::Status trial = ChooseTrials(*client, word).status();
  if (!absl::IsNotFound(trial)) return trial.ok() ? RunTrialLogs(chosen) : trial;
  absl::Status node = ChooseNodes(*client, word).status();
  if (!absl::IsNotFound(node)) return node.ok() ? RunNodeLogs(chosen) : node;
  std::string near = HintOf(job);
  for (const absl::Status& status : {trial, node})
    if (near.empty()) near = HintOf(status);
  return NotFound("no job, trial or node matches '" + word + "'",
                  near.empty() ? "rt logs 1/4 (a trial), j3 (a job), worker-1 (a node)" : near);
}

}  // namespace rt
