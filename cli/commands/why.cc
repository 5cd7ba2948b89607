// `rt trial why`, `rt node why`: sentences that say why something is as it is.
#include <cstdio>

#include "cli/commands/common.h"
#include "cli/render/why.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

// The first line is about the whole; the others explain it.
void PrintWhy(const std::vector<std::string>& lines) {
  for (size_t i = 0; i < lines.size(); ++i)
    for (const std::string& line : Split(lines[i], '\n'))
      std::printf("%s%s\n", i == 0 ? "" : "  ", EscapeControl(line).c_str());
}

Json WhyJson(const Json& item, const std::vector<std::string>& lines) {
  Json why = Json::MakeArray();
  for (const std::string& line : lines) why.Append(line);
  Json out = Json::MakeObject();
  for (const char* key : {"id", "name", "state", "reason"})
    out.Set(key, item.Find(key) == nullptr ? Json() : *item.Find(key));
  out.Set("why", std::move(why));
  if (const Json* waiting = item.Find("waiting")) out.Set("waiting", *waiting);
  return out;
}

struct Explained {
  Json item;
  std::vector<std::string> lines;
};

int PrintExplained(const Invocation& invocation, const std::vector<Explained>& all) {
  Json items = Json::MakeArray();
  for (const Explained& one : all) {
    if (invocation.output == Output::kQuiet) std::puts(CellText(one.item.Find("id")).c_str());
    if (invocation.output == Output::kTable) PrintWhy(one.lines);
    items.Append(WhyJson(one.item, one.lines));
  }
  if (invocation.output != Output::kJson) return kExitOk;
  if (items.array().size() == 1) PrintJson(items.array()[0]);
  else PrintJson(Json::MakeObject({{"schema", 1}, {"items", items}, {"next", nullptr}}));
  return kExitOk;
}

}  // namespace

ExitCode RunTrialWhy(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<TrialId> chosen, ChooseTrials(*client, SelectorOf(invocation)));
  RT_ASSIGN_OR_RETURN(Json nodes, ListNodes(*client));
  std::vector<Explained> all;
  for (TrialId id : chosen) {
    RT_ASSIGN_OR_RETURN(Json trial, GetTrial(*client, id));
    std::vector<std::string> lines = WhyTrial(trial, nodes["items"]);
    all.push_back({std::move(trial), std::move(lines)});
  }
  return PrintExplained(invocation, all);
}

ExitCode RunNodeWhy(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen, ChooseNodes(*client, SelectorOf(invocation)));
  RT_ASSIGN_OR_RETURN(Json status, client->Ask<v1::ClusterService>(
                                       &v1::ClusterService::Stub::Status, v1::Empty()));
  std::vector<Explained> all;
  for (uint64_t id : chosen) {
    RT_ASSIGN_OR_RETURN(Json node, GetNode(*client, std::to_string(id)));
    std::vector<std::string> lines = WhyNode(node, status["pending"]);
    all.push_back({std::move(node), std::move(lines)});
  }
  return PrintExplained(invocation, all);
}

}  // namespace rt
