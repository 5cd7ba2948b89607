// `rt completion bash|zsh|fish`: the verbs, as a script for the shell's start-up file.
#include <cstdio>

#include "cli/commands/common.h"
#include "common/base/status.h"

namespace rt {
namespace {
constexpr char kVerbs[] = "up down status submit logs bridge exp trial job node context token "
                          "completion";
constexpr char kNounVerbs[] = "list show stop logs use add create revoke";
}  // namespace

ExitCode RunCompletion(const Invocation& invocation) {
  std::string shell = FirstWord(invocation);
  if (shell == "bash" || shell == "zsh") {
    if (shell == "zsh") std::puts("autoload -U bashcompinit && bashcompinit");
    std::printf("_rt() {\n  local words=\"%s\"\n  [ \"$COMP_CWORD\" -gt 1 ] && words=\"%s\"\n"
                "  COMPREPLY=($(compgen -o default -W \"$words\" -- "
                "\"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _rt rt\n",
                kVerbs, kNounVerbs);
    return kExitOk;
  }
  if (shell == "fish") {
    std::printf("complete -c rt -n __fish_use_subcommand -a '%s'\n"
                "complete -c rt -n 'not __fish_use_subcommand' -a '%s'\n", kVerbs, kNounVerbs);
    return kExitOk;
  }
  return Invalid("which shell?", "rt completion bash|zsh|fish");
}

}  // namespace rt
