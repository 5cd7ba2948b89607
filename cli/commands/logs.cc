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
    return Invalid("whose logs?", "rt logs -f 1/4 (a trial), j3 (a job), worker-1 (a node)");
  Invocation chosen = invocation;
  std::string word;
  char kind = KindOfWord(words, word);
  chosen.words = {word};
  if (kind == 't') return RunTrialLogs(chosen);
  if (kind == 'j') return RunJobLogs(chosen);
  if (kind == 'n') return RunNodeLogs(chosen);
  if (kind != '\0') return Invalid("'" + words[0] + "' has no logs", "trial, job or node");
  // A number is a job before it is a trial; another word is a name.
  bool number = word.find_first_not_of("0123456789") == std::string::npos;
  ExitCode code = RunJobLogs(chosen);
  if (number) return absl::IsNotFound(code.status()) ? RunTrialLogs(chosen) : code;
  bool no_job = absl::IsNotFound(code.status()) || absl::IsInvalidArgument(code.status());
  return no_job ? RunNodeLogs(chosen) : code;
}

}  // namespace rt
