// `rt context remove NAME`.
#include <algorithm>
#include <cstdio>

#include "cli/client/home.h"
#include "cli/commands/acting.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {

ExitCode RunContextRemove(const Invocation& invocation) {
  if (invocation.words.size() != 1) return Invalid("name a context", "rt context remove lab");
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  const std::string name = FirstWord(invocation);
  const std::vector<std::string> known = home.ClusterNames();
  if (std::find(known.begin(), known.end(), name) == known.end())
    return NotFound("no context matches '" + name + "'", DidYouMean(name, known));
  if (home.IsLocal(name))
    return Invalid("'" + name + "' is a cluster of this machine", "rt down " + name);
  RT_RETURN_IF_ERROR(home.Forget(name));
  if (invocation.output == Output::kTable)
    std::fprintf(stderr, "context %s is removed\n", name.c_str());
  PrintActed(invocation, "remove", {ActedItem(name, "context", "REMOVED")});
  return kExitOk;
}

}  // namespace rt
