// `rt logs [-f] TRIAL|JOB`: "1/4" is a trial, "j3" or a number a job.
#include "cli/commands/common.h"
#include "common/base/status.h"

namespace rt {

ExitCode RunLogs(const Invocation& invocation) {
  std::string word = FirstWord(invocation);
  if (word.empty())
    return Invalid("whose logs?", "rt logs -f 1/4 (a trial), rt logs -f j3 (a job)");
  Invocation chosen = invocation;
  if (word.find('/') != std::string::npos) return RunTrialLogs(chosen);
  if (word.size() > 1 && (word[0] == 'j' || word[0] == 't') && std::isdigit(word[1])) {
    chosen.words[0] = word.substr(1);
    return word[0] == 'j' ? RunJobLogs(chosen) : RunTrialLogs(chosen);
  }
  ExitCode code = RunJobLogs(chosen);
  return absl::IsNotFound(code.status()) ? RunTrialLogs(chosen) : code;
}

}  // namespace rt
