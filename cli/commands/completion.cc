// `rt completion bash|zsh|fish`: a script that asks `rt __complete WORD…` for the candidates, so
// that it knows every verb and flag, and the contexts of the moment.
#include <cstdio>

#include "cli/commands/common.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr char kBash[] = R"x(_rt() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    [ -n "$line" ] && COMPREPLY+=("$line")
  done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _rt rt
)x";
constexpr char kZsh[] = R"x(#compdef rt
_rt() {
  local -a candidates
  candidates=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  candidates=(${candidates:#})
  if (( ${#candidates} )); then compadd -a candidates; else _files; fi
}
if [ "$funcstack[1]" = _rt ]; then _rt "$@"; else compdef _rt rt; fi
)x";
constexpr char kFish[] = R"x(function __rt_complete
  set -l words (commandline -opc) (commandline -ct)
  rt __complete $words[2..-1] 2>/dev/null
end
complete -c rt -a '(__rt_complete)'
)x";

}  // namespace

ExitCode RunCompletion(const Invocation& invocation) {
  std::string shell = FirstWord(invocation);
  const char* script = shell == "bash" ? kBash : shell == "zsh" ? kZsh
                                             : shell == "fish"  ? kFish
                                                                : nullptr;
  if (script == nullptr)
    return Invalid(shell.empty() ? "name a shell" : "no completion for '" + shell + "'",
                   "rt completion bash|zsh|fish");
  std::fputs(script, stdout);
  return kExitOk;
}

}  // namespace rt
