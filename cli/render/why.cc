#include "cli/render/why.h"

#include <string.h>  // sigabbrev_np

#include <algorithm>
#include <optional>
#include <set>

#include "cli/render/nouns.h"
#include "cli/render/spans.h"
#include "common/base/ids.h"
#include "common/base/strings.h"

namespace rt {
namespace {

std::string NodeName(const Json& nodes, const Json& id) {
  if (nodes.is_array())
    for (const Json& node : nodes.array())
      if (const Json* found = node.Find("id"); found != nullptr && *found == id)
        return node.GetString("name");
  return "node " + CellText(&id);
}

std::string PlacesOf(const Json& attempt, const Json& nodes) {
  std::vector<std::string> places;
  if (const Json* members = attempt.Find("members"); members != nullptr && members->is_array())
    for (const Json& member : members->array()) {
      const Json* node = member.Find("node_id");
      std::string place = node == nullptr ? "?" : NodeName(nodes, *node);
      if (const Json* pid = member.Find("pid"); pid != nullptr && pid->is_int())
        place += " (process " + pid->Dump() + ")";
      places.push_back(place);
    }
  return Join(places, ", ");
}

// The nodes of a live attempt that do not take work now, each with the reason.
void AddNodes(const Json& attempt, const Json& nodes, std::vector<std::string>& lines) {
  const Json* members = attempt.Find("members");
  if (members == nullptr || !members->is_array() || !nodes.is_array()) return;
  std::set<std::string> said;
  for (const Json& member : members->array()) {
    const Json* id = member.Find("node_id");
    for (const Json& node : nodes.array()) {
      const Json* found = node.Find("id");
      const std::string state = node.GetString("state"), reason = node.GetString("reason");
      if (id == nullptr || found == nullptr || !(*found == *id) || state != "SUSPECT") continue;
      const std::string name = node.GetString("name");
      if (!said.insert(name).second) continue;
      lines.push_back("its node " + name + " is SUSPECT: " +
                      (reason.empty() ? "it was heard of last " +
                                            AgeText(node.Find("last_seen_at"))
                                      : reason));
    }
  }
}

std::string Lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

// The signal that rt itself ended it with, its reason, or what the process left: once.
std::string HowItEnded(const Json& attempt) {
  const std::string outcome = attempt.GetString("outcome"), reason = attempt.GetString("reason");
  const int64_t signal = attempt.GetInt("signal"), code = attempt.GetInt("exit_code");
  const std::string killed = "killed by signal " + std::to_string(signal);
  const bool by_rt = outcome == "STOPPED" || outcome == "SUSPENDED" || outcome == "PREEMPTED";
  if (signal > 0 && by_rt && (reason.empty() || reason == killed)) {
    const char* name = ::sigabbrev_np(static_cast<int>(signal));
    return "ended by rt (" + (name == nullptr ? killed : "SIG" + std::string(name)) + ")";
  }
  const std::string said = signal > 0 ? killed
                           : code > 0 ? "exited with code " + std::to_string(code)
                                      : "";
  const bool says_it = reason.find(said) != std::string::npos;
  return reason.empty() ? said : says_it ? reason : reason + "; " + said;
}

// "attempt 1 on worker-2 ended 3s ago: lost; its node was lost": one that is over.
std::string EndOf(const Json& attempt, const Json& nodes) {
  std::string text = "attempt " + CellText(attempt.Find("number")) + " on " +
                     PlacesOf(attempt, nodes) + " ended " + AgeText(attempt.Find("ended_at")) +
                     ": " + Lower(attempt.GetString("outcome"));
  const std::string how = HowItEnded(attempt);
  return how.empty() ? text : text + "; " + how;
}

void AddWaiting(const Json& trial, std::vector<std::string>& lines) {
  const Json* waiting = trial.Find("waiting");
  if (waiting == nullptr || !waiting->is_object()) return;
  const std::string reason = waiting->GetString("reason");
  const std::string subject = reason.starts_with("its ")     ? ""
                              : reason.starts_with("paused") ? "it is "
                                                             : "it ";
  lines.push_back(subject + reason);
  if (std::string frees = waiting->GetString("frees"); !frees.empty())
    lines.push_back("what would help: " + frees);
}

void AddError(const Json& trial, std::vector<std::string>& lines) {
  const Json* error = trial.Find("error");
  if (error == nullptr || !error->is_object()) return;
  std::string kind = error->GetString("class"), text = error->GetString("message");
  if (text == trial.GetString("reason")) return;  // It has been said.
  lines.push_back("error: " + (kind.empty() ? "" : kind + ": ") + text);
  if (std::string trace = error->GetString("traceback"); !trace.empty()) lines.push_back(trace);
}

std::string NodeMeaning(const Json& node) {
  std::string state = node.GetString("state");
  if (state == "READY") return "it takes work";
  if (state == "REQUESTED") return "the provider was asked for it";
  if (state == "STARTING") return "it joined and has not said what it has yet";
  if (state == "SUSPECT")
    return "it takes no new work: it was heard of last " + AgeText(node.Find("last_seen_at"));
  if (state == "DRAINING") {
    std::string by = node.GetString("drain_until");
    return "it takes no new work; its trials save and continue elsewhere" +
           (by.empty() ? "" : ", by " + by);
  }
  if (state == "LOST")
    return "it takes no work: it was heard of last " + AgeText(node.Find("last_seen_at")) +
           "; what it ran continues elsewhere, and it is taken back when it returns";
  return "it left the cluster";
}

std::string FreeText(const Json& node) {
  std::vector<std::string> parts;
  const Json* total = node.Find("resources_total");
  const Json* used = node.Find("resources_used");
  for (const char* kind : {"cpu", "gpu"}) {
    double all = total == nullptr ? 0 : total->GetDouble(kind);
    if (all <= 0) continue;
    Json rest(all - (used == nullptr ? 0 : used->GetDouble(kind))), whole(all);
    parts.push_back(CellText(&rest) + " of " + CellText(&whole) + " " + kind);
  }
  return parts.empty() ? "" : "free: " + Join(parts, ", ");
}

}  // namespace

std::string RunText(const std::string& fence) {
  const std::optional<Fence> run = ParseFence(fence);
  if (!run.has_value()) return fence;
  const Owner& owner = run->attempt.owner;
  std::string text = Describe(owner) + " (attempt " + std::to_string(run->attempt.number);
  return text + (run->rank == 0 ? ")" : ", rank " + std::to_string(run->rank) + ")");
}

std::vector<std::string> WhyTrial(const Json& trial, const Json& nodes) {
  std::string state = trial.GetString("state");
  std::vector<std::string> lines = {"trial " + trial.GetString("id") + " is " + state};
  const Json* attempts = trial.Find("attempts");
  const Json::Array none;
  const Json::Array& all = attempts != nullptr && attempts->is_array() ? attempts->array() : none;
  bool live = state == "STARTING" || state == "RUNNING" || state == "STOPPING";
  AddWaiting(trial, lines);
  if (live && !all.empty())
    lines.push_back("attempt " + CellText(all.back().Find("number")) + " on " +
                    PlacesOf(all.back(), nodes) +
                    (state == "STARTING" ? " is being started"
                                         : ", started " + AgeText(all.back().Find("started_at"))));
  if (live && !all.empty()) AddNodes(all.back(), nodes, lines);
  if (const Json* step = trial.Find("step"); live && step != nullptr && !step->is_null())
    lines.push_back("its last report is of step " + CellText(step));
  else if (state == "RUNNING") lines.push_back("it has not reported yet");
  const Json* waiting = trial.Find("waiting");
  bool waits = waiting != nullptr && waiting->is_object();
  if (std::string reason = trial.GetString("reason"); !reason.empty() && !waits)
    lines.push_back("because: " + reason);
  AddError(trial, lines);
  for (const Json& attempt : all)
    if (!attempt.GetString("ended_at").empty()) lines.push_back(EndOf(attempt, nodes));
  return lines;
}

namespace {

// Which of its gpus take no work, and which take work again because a probe found them well.
std::vector<std::string> GpuLines(const Json& node) {
  std::vector<std::string> lines;
  const Json* gpus = node.Find("gpus");
  if (gpus == nullptr || !gpus->is_array()) return lines;
  for (const Json& gpu : gpus->array()) {
    const std::string name = "gpu " + std::to_string(gpu.GetInt("index"));
    if (const std::string fault = gpu.GetString("reason"); !fault.empty())
      lines.push_back(name + " takes no work: " + fault);
    const Json* cleared = gpu.Find("cleared");
    if (cleared != nullptr && cleared->is_object())
      lines.push_back(name + " takes work again since " + cleared->GetString("at") + ": " +
                      cleared->GetString("reason"));
  }
  return lines;
}

std::vector<std::string> LinkLines(const Json& node) {
  std::vector<std::string> lines;
  const Json* links = node.Find("slow_links");
  if (links == nullptr || !links->is_array()) return lines;
  for (const Json& link : links->array()) {
    const std::string other = link.GetString("node");
    const bool is_of_all = other.empty();
    lines.push_back(
        (is_of_all ? "its links to all other nodes carry " : "its link to " + other + " carries ") +
        FormatDouble(link.GetDouble("bus_gbps", 0)) + " GB/s, where a gang asked for " +
        FormatDouble(link.GetDouble("asked_gbps", 0)) +
        ": gangs that ask for more do without it until a preflight measures enough, or rt node "
        "undrain " +
        node.GetString("name") + " --links; from " + link.GetString("retry_at") +
        " on, a gang that can be placed nowhere else measures it anew");
  }
  return lines;
}

}  // namespace

std::vector<std::string> WhyNode(const Json& node, const Json& pending) {
  std::vector<std::string> lines = {"node " + node.GetString("name") + " is " +
                                        node.GetString("state"),
                                    NodeMeaning(node)};
  if (std::string reason = node.GetString("reason"); !reason.empty())
    lines.push_back("because: " + reason);
  if (std::string free = FreeText(node); !free.empty()) lines.push_back(free);
  const Json* attempts = node.Find("attempts");
  std::vector<std::string> running;
  if (attempts != nullptr && attempts->is_array())
    for (const Json& attempt : attempts->array()) running.push_back(RunText(CellText(&attempt)));
  if (!running.empty()) lines.push_back("runs: " + Join(running, ", "));
  else lines.push_back("runs nothing");
  for (std::string& line : GpuLines(node)) lines.push_back(std::move(line));
  for (std::string& line : LinkLines(node)) lines.push_back(std::move(line));
  if (const int64_t held = node.GetInt("held_checkpoints"); held > 0)
    lines.push_back("holds " + std::to_string(held) + (held == 1 ? " checkpoint" : " checkpoints") +
                    " that the store does not have yet, and brings them there");
  if (pending.is_array() && !pending.array().empty()) {
    const Json& first = pending.array()[0];
    const size_t count = pending.array().size();
    lines.push_back(std::to_string(count) + (count == 1 ? " waits" : " wait") +
                    " in the cluster; " + first.GetString("id") + " " + first.GetString("reason"));
  }
  return lines;
}

}  // namespace rt
