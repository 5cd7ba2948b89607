// `rt context list`, `rt context use NAME`, `rt context add NAME --from DIR`, or with the token of
// `rt token create --role user|viewer|admin`.
#include <cstdio>

#include "cli/client/archive.h"
#include "cli/client/head_probe.h"
#include "cli/client/join.h"
#include "cli/commands/common.h"
#include "cli/render/table.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Bytes kTokenBytesMax = 64 << 10;

// "-": standard input, so that the token need not touch a disk.
absl::StatusOr<std::string> ReadToken(const std::string& path) {
  return ReadFile(path == "-" ? "/dev/stdin" : path, kTokenBytesMax);
}

// `trouble`: why its head does not answer; "" when it does.
Json ContextView(const Home& home, const std::string& name, const std::string& trouble) {
  absl::StatusOr<Context> context = home.Load(name);
  return Json::MakeObject({{"name", name},
                           {"kind", home.IsLocal(name) ? "local" : "remote"},
                           {"up", trouble.empty()},
                           {"reason", trouble.empty() ? Json() : Json(trouble)},
                           {"current", home.Current() == name},
                           {"address", context.ok() ? context->address : ""}});
}

Json NamesJson(const std::vector<std::string>& names) {
  Json list = Json::MakeArray();
  for (const std::string& name : names) list.Append(name);
  return list;
}

// Prints the context that a verb has made or chosen.
int PrintContext(const Invocation& invocation, const Home& home, const std::string& name) {
  if (invocation.output == Output::kJson)
    PrintJson(ContextView(home, name, ProbeHeads(home, {name})[name]));
  if (invocation.output == Output::kQuiet) std::puts(name.c_str());
  return kExitOk;
}

}  // namespace

ExitCode RunContextList(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  Json items = Json::MakeArray();
  Table table({"CURRENT", "NAME", "KIND", "UP", "ADDRESS", "REASON"});
  for (const auto& [name, trouble] : ProbeHeads(home, home.ClusterNames())) {
    Json item = ContextView(home, name, trouble);
    table.Add({item.GetBool("current") ? "*" : "", name, item.GetString("kind"),
               item.GetBool("up") ? "yes" : "no", item.GetString("address"), trouble});
    items.Append(std::move(item));
    if (invocation.output == Output::kQuiet) std::printf("%s\n", name.c_str());
  }
  const std::vector<std::string> archived = ArchiveNames(home);
  if (invocation.output == Output::kJson)
    PrintJson(Json::MakeObject(
        {{"schema", 1}, {"items", items}, {"next", nullptr}, {"archived", NamesJson(archived)}}));
  if (invocation.output == Output::kTable) std::fputs(table.Render().c_str(), stdout);
  if (invocation.output == Output::kTable && !archived.empty())
    std::fprintf(stderr, "rt: archived (rt up continues, rt down NAME --purge deletes): %s\n",
                 Join(archived, ", ").c_str());
  return kExitOk;
}

ExitCode RunContextUse(const Invocation& invocation) {
  if (invocation.words.empty()) return Invalid("name a context", "rt context list shows them");
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  std::vector<std::string> names = home.ClusterNames();
  std::string name = FirstWord(invocation);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    const std::string near = DidYouMean(name, names);
    return NotFound("no context matches '" + name + "'",
                    near.empty() ? "rt context list shows them" : near);
  }
  RT_RETURN_IF_ERROR(home.SetCurrent(name));
  return PrintContext(invocation, home, name);
}

ExitCode RunContextAdd(const Invocation& invocation) {
  bool copy = !invocation.from.empty();
  bool redeem = !invocation.token_file.empty() && !invocation.head.empty();
  if (invocation.words.size() != 1)
    return Invalid("name the new context, once",
                   "rt context add lab --from /var/lib/rt-head/admin");
  if (copy == redeem)
    return Invalid("give either --from, or --head together with --token-file",
                   "rt context add lab --from /var/lib/rt-head/admin, or rt context add lab "
                   "--head lab.lan:7070 --token-file token");
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  if (copy) {
    RT_RETURN_IF_ERROR(home.Add(FirstWord(invocation), AbsolutePath(invocation.from)));
  } else {
    RT_RETURN_IF_ERROR(home.CheckNew(FirstWord(invocation)));  // A token is good once.
    RT_ASSIGN_OR_RETURN(std::string token, ReadToken(invocation.token_file));
    RT_ASSIGN_OR_RETURN(Context context,
                        RedeemToken(token, invocation.head, FirstWord(invocation)));
    RT_RETURN_IF_ERROR(home.Add(context));
  }
  if (home.Current().empty()) RT_RETURN_IF_ERROR(home.SetCurrent(FirstWord(invocation)));
  return PrintContext(invocation, home, FirstWord(invocation));
}

}  // namespace rt
