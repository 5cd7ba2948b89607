// `rt context list`, `rt context use NAME`, `rt context add NAME --from DIR`.
#include <cstdio>

#include "cli/commands/common.h"
#include "cli/render/table.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {

ExitCode RunContextList(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  Json items = Json::MakeArray();
  Table table({"CURRENT", "NAME", "KIND", "UP", "ADDRESS"});
  for (const std::string& name : home.ClusterNames()) {
    absl::StatusOr<Context> context = home.Load(name);
    std::string address = context.ok() ? context->address : "";
    bool current = home.Current() == name;
    std::string kind = home.IsLocal(name) ? "local" : "remote";
    items.Append(Json::MakeObject({{"name", name}, {"kind", kind}, {"up", home.IsUp(name)},
                                   {"current", current}, {"address", address}}));
    table.Add({current ? "*" : "", name, kind, home.IsUp(name) ? "yes" : "no", address});
    if (invocation.output == Output::kQuiet) std::printf("%s\n", name.c_str());
  }
  if (invocation.output == Output::kJson)
    PrintJson(Json::MakeObject({{"schema", 1}, {"items", items}, {"next", nullptr}}));
  if (invocation.output == Output::kTable) std::fputs(table.Render().c_str(), stdout);
  return kExitOk;
}

ExitCode RunContextUse(const Invocation& invocation) {
  if (invocation.words.empty()) return Invalid("which context?", "rt context use demo");
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  std::vector<std::string> names = home.ClusterNames();
  std::string name = FirstWord(invocation);
  if (std::find(names.begin(), names.end(), name) == names.end())
    return NotFound("unknown context '" + name + "'", DidYouMean(name, names));
  RT_RETURN_IF_ERROR(home.SetCurrent(name));
  return kExitOk;
}

ExitCode RunContextAdd(const Invocation& invocation) {
  if (invocation.words.empty() || invocation.from.empty())
    return Invalid("a context needs a name and a directory",
                   "rt context add lab --from /var/lib/rt-head/admin");
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  RT_RETURN_IF_ERROR(home.Add(FirstWord(invocation), AbsolutePath(invocation.from)));
  if (home.Current().empty()) RT_RETURN_IF_ERROR(home.SetCurrent(FirstWord(invocation)));
  return kExitOk;
}

}  // namespace rt
