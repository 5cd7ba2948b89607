#include "cli/render/live.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/render/nouns.h"
#include "cli/render/spans.h"
#include "cli/render/waits.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr size_t kLabel = 9;       // The width of "error    " and its like.
constexpr size_t kReasonsMax = 2;  // Distinct reasons for waiting that are shown.
constexpr size_t kBarMax = 40;
constexpr size_t kLeastRows = 6;

int64_t CountOf(const Json& experiment, const char* state) {
  const Json* counts = experiment.Find("trials_by_state");
  return counts == nullptr ? 0 : counts->GetInt(state);
}

// Trials that ended before they ran do not count as done.
int64_t DoneOf(const Json& experiment) {
  return CountOf(experiment, "COMPLETED") + CountOf(experiment, "STOPPED") +
         CountOf(experiment, "FAILED") - experiment.GetInt("trials_never_started");
}

bool IsOver(const std::string& state) {
  return state == "COMPLETED" || state == "STOPPED" || state == "FAILED";
}

std::string Pad(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

Spans Labelled(const char* label) { return {{Pad(label, kLabel), Ink::kFaint}}; }

// The part of the search that is done, in [0, 1]; nullopt when the total is unknown.
struct Way {
  std::optional<double> share;
  std::optional<double> left_s;
};
Way WayOf(const Json& experiment) {
  Way way;
  double elapsed = experiment.GetDouble("elapsed_s"), budget = 0;
  if (const Json* spec = experiment.Find("spec"))
    if (const Json* text = spec->Find("time_budget"))
      budget = text->is_number() ? text->AsDouble()
                                 : ParseDurationSeconds(CellText(text)).value_or(0);
  double done = static_cast<double>(DoneOf(experiment));
  if (const Json* total = experiment.Find("trials_total"); total != nullptr && total->is_int()) {
    double all = std::max<double>(1, static_cast<double>(total->AsInt()));
    way.share = std::min(1.0, done / all);
    if (done > 0) way.left_s = elapsed / done * (all - done);
  }
  if (budget > 0) {
    way.share = std::max(way.share.value_or(0), std::min(1.0, elapsed / budget));
    way.left_s = std::min(way.left_s.value_or(budget), std::max(0.0, budget - elapsed));
  }
  if (IsOver(experiment.GetString("state"))) way.left_s.reset();
  return way;
}

std::string CountText(const Json& experiment) {
  std::string text = std::to_string(DoneOf(experiment));
  const Json* total = experiment.Find("trials_total");
  if (total != nullptr && total->is_int()) text += "/" + total->Dump();
  return text + " trials";
}

Spans Title(const Json& experiment) {
  std::string state = experiment.GetString("state");
  Spans line = {{"experiment " + CellText(experiment.Find("id")) + " ", Ink::kPlain},
                {experiment.GetString("name"), Ink::kBold},
                {"  ", Ink::kPlain},
                {state, InkOfState(state)},
                {"  " + DurationText(experiment.GetDouble("elapsed_s")), Ink::kPlain}};
  if (std::string reason = experiment.GetString("reason"); !reason.empty())
    line.push_back({"  " + reason, Ink::kFaint});
  return line;
}

std::string Bar(double share, size_t width) {
  size_t full = static_cast<size_t>(std::floor(share * static_cast<double>(width) + 1e-9));
  std::string bar = "[" + std::string(full, '=') + std::string(width - full, ' ') + "]";
  if (full > 0 && full < width) bar[full] = '>';
  return bar;
}

Spans ProgressBar(const Json& experiment, size_t columns) {
  Way way = WayOf(experiment);
  Spans line = Labelled("");
  if (way.share.has_value()) {
    size_t width = std::clamp<size_t>(columns / 3, 10, kBarMax);
    const std::string state = experiment.GetString("state");
    const Ink ink = IsOver(state) ? InkOfState(state) : Ink::kGreen;
    line.push_back({Bar(*way.share, width) + " ", ink});
    line.push_back({std::to_string(static_cast<int>(*way.share * 100)) + "%  ", Ink::kPlain});
  }
  line.push_back({CountText(experiment), Ink::kPlain});
  if (way.left_s.has_value())
    line.push_back({"  about " + DurationText(*way.left_s) + " left", Ink::kFaint});
  return line;
}

Spans Counts(const Json& experiment) {
  Spans line = Labelled("trials");
  const Json* counts = experiment.Find("trials_by_state");
  if (counts == nullptr || !counts->is_object()) return line;
  for (const auto& [state, count] : counts->object()) {
    if (!count.is_int() || count.AsInt() == 0) continue;
    if (line.size() > 1) line.push_back({"  ", Ink::kPlain});
    line.push_back({count.Dump() + " " + state, InkOfState(state)});
  }
  if (const int64_t never = experiment.GetInt("trials_never_started"); never > 0)
    line.push_back({" (" + std::to_string(never) + " never started)", Ink::kFaint});
  return line;
}

void AddBest(const Json& experiment, size_t columns, std::vector<Spans>& lines) {
  const Json* best = experiment.Find("best");
  if (best == nullptr || !best->is_object()) return;
  Spans line = Labelled("best");
  line.push_back({experiment.GetString("metric", "value") + " " + CellText(best->Find("value")),
                  Ink::kBold});
  line.push_back({"  trial " + best->GetString("trial_id") + "  step " +
                      CellText(best->Find("step")), Ink::kPlain});
  lines.push_back(std::move(line));
  const Json* params = best->Find("params");
  if (params == nullptr || !params->is_object()) return;
  std::string text;
  size_t room = columns > kLabel + 1 ? columns - kLabel - 1 : 1;
  size_t wrapped = 0;
  const Json flat = Flatten(*params);
  for (const auto& [name, value] : flat.object()) {
    std::string word = name + "=" + CellText(&value);
    if (!text.empty() && text.size() + 1 + word.size() > room && wrapped < 2) {
      lines.push_back({{Pad("", kLabel) + text, Ink::kPlain}});
      text.clear();
      ++wrapped;
    }
    text += (text.empty() ? "" : " ") + word;
  }
  if (!text.empty()) lines.push_back({{Pad("", kLabel) + text, Ink::kPlain}});
}

void AddRungs(const Json& experiment, std::vector<Spans>& lines) {
  const Json* rungs = experiment.Find("rungs");
  if (rungs == nullptr || !rungs->is_array() || rungs->array().empty()) return;
  std::string text;
  for (const Json& rung : rungs->array())
    text += (text.empty() ? "" : "  ") + std::string("step ") + CellText(rung.Find("milestone")) +
            ": " + CellText(rung.Find("stopped")) + " of " + CellText(rung.Find("recorded")) +
            " stopped";
  Spans line = Labelled("rungs");
  line.push_back({text, Ink::kPlain});
  lines.push_back(std::move(line));
}

std::string UseText(const Json& node, const char* kind) {
  const Json* total = node.Find("resources_total");
  const Json* used = node.Find("resources_used");
  if (total == nullptr || total->GetDouble(kind) <= 0) return "";
  std::string busy = used == nullptr ? "0" : CellText(used->Find(kind));
  return std::string("  ") + kind + " " + busy + "/" + CellText(total->Find(kind));
}

Spans NodeLine(const Json& node, size_t name_width) {
  std::string state = node.GetString("state");
  Spans line = {{Pad(node.GetString("name"), name_width) + "  ", Ink::kPlain},
                {Pad(state, 9), InkOfState(state)}};
  const Json* total = node.Find("resources_total");
  const Json* used = node.Find("resources_used");
  double cpus = total == nullptr ? 0 : total->GetDouble("cpu");
  if (cpus > 0 && used != nullptr)
    line.push_back({" " + Bar(std::min(1.0, used->GetDouble("cpu") / cpus), 10), Ink::kGreen});
  line.push_back({UseText(node, "cpu") + UseText(node, "gpu"), Ink::kPlain});
  if (std::string reason = node.GetString("reason"); !reason.empty())
    line.push_back({"  " + reason, Ink::kFaint});
  return line;
}

// At most `most` lines; the last one sums up what does not fit.
void AddNodes(const Json& nodes, size_t most, std::vector<Spans>& lines) {
  if (!nodes.is_array() || most == 0) return;
  std::vector<const Json*> there;
  size_t name_width = 4;
  for (const Json& node : nodes.array()) {
    if (node.GetString("state") == "GONE") continue;
    there.push_back(&node);
    name_width = std::min<size_t>(24, std::max(name_width, node.GetString("name").size()));
  }
  size_t shown = there.size() <= most ? there.size() : most - 1;
  for (size_t i = 0; i < shown; ++i) {
    Spans line = Labelled(i == 0 ? "nodes" : "");
    Spans rest = NodeLine(*there[i], name_width);
    line.insert(line.end(), rest.begin(), rest.end());
    lines.push_back(std::move(line));
  }
  if (shown == there.size()) return;
  double cpus = 0, busy = 0;
  for (size_t i = shown; i < there.size(); ++i) {
    if (const Json* total = there[i]->Find("resources_total")) cpus += total->GetDouble("cpu");
    if (const Json* used = there[i]->Find("resources_used")) busy += used->GetDouble("cpu");
  }
  Json used(busy), total(cpus);
  Spans line = Labelled(shown == 0 ? "nodes" : "");
  line.push_back({"and " + std::to_string(there.size() - shown) + " more: cpu " +
                      CellText(&used) + "/" + CellText(&total), Ink::kFaint});
  lines.push_back(std::move(line));
}

// What waits and why, the most frequent reasons first. `prefix`: "3/" for one experiment.
void AddWaiting(const Json& status, const std::string& prefix, std::vector<Spans>& lines) {
  const std::vector<WaitGroup> groups = GroupWaits(status, prefix);
  const size_t shown = std::min(groups.size(), kReasonsMax);
  for (size_t i = 0; i < shown; ++i) {
    Spans line = Labelled(i == 0 ? "waits" : "");
    line.push_back({WhoWaits(groups[i]) + ": " + groups[i].reason, Ink::kYellow});
    lines.push_back(std::move(line));
  }
  if (shown == groups.size()) return;
  Spans line = Labelled("");
  const size_t left = groups.size() - shown;
  line.push_back({"and " + std::to_string(left) + " other reason" + (left == 1 ? "" : "s") +
                      ": rt status", Ink::kFaint});
  lines.push_back(std::move(line));
}

void AddError(const Json& experiment, std::vector<Spans>& lines) {
  const Json* error = experiment.Find("last_error");
  if (error == nullptr || !error->is_object()) return;
  std::string message = error->GetString("message"), kind = error->GetString("class");
  message.erase(message.find_last_not_of(" \n") + 1);  // The last line of a traceback says most.
  message.erase(0, message.rfind('\n') == std::string::npos ? 0 : message.rfind('\n') + 1);
  if (!kind.empty() && !message.starts_with(kind)) message = kind + ": " + message;
  Spans line = Labelled("error");
  line.push_back({"trial " + error->GetString("trial_id") + ": " + message, Ink::kRed});
  lines.push_back(std::move(line));
}

// Adds how many lines were cut off, where there is a line for it.
Spans CutMark(size_t lines) {
  return {{"… " + std::to_string(lines) + " more line" + (lines == 1 ? "" : "s"), Ink::kFaint}};
}

void CutTo(size_t most, std::vector<Spans>& lines) {
  if (lines.size() <= most) return;
  const size_t whole = lines.size();
  lines.resize(most);
  if (most > 1) lines.back() = CutMark(whole - most + 1);
}

std::vector<std::string> Fit(std::vector<Spans> lines, const FrameSize& size) {
  // The last column stays free: a terminal that has just filled it behaves in its own way.
  size_t width = std::max<size_t>(size.columns, 2) - 1;
  size_t rows = std::max<size_t>(size.rows, 2) - 1;
  const bool says_how_to_end = size.quits && rows > kLeastRows;
  CutTo(says_how_to_end ? rows - 1 : rows, lines);
  if (says_how_to_end) lines.push_back({{"q quits", Ink::kFaint}});
  std::vector<std::string> frame;
  for (const Spans& line : lines) frame.push_back(RenderSpans(line, width, size.color));
  return frame;
}

// Sorts running experiments first, then other open ones, the newest first.
std::vector<const Json*> OpenExperiments(const Json& status) {
  std::vector<const Json*> open;
  const Json* items = status.Find("experiments");
  if (items == nullptr || !items->is_array()) return open;
  for (auto item = items->array().rbegin(); item != items->array().rend(); ++item)
    if (!IsOver(item->GetString("state"))) open.push_back(&*item);
  std::stable_partition(open.begin(), open.end(), [](const Json* item) {
    return CountOf(*item, "RUNNING") + CountOf(*item, "STARTING") > 0;
  });
  return open;
}

}  // namespace

std::vector<std::string> RenderExperimentFrame(const LiveFacts& facts, const FrameSize& size) {
  const Json& experiment = facts.experiment;
  size_t rows = std::max<size_t>(size.rows, 2) - 1;
  if (size.quits && rows > kLeastRows) --rows;
  std::vector<Spans> top = {Title(experiment), ProgressBar(experiment, size.columns),
                            Counts(experiment)};
  AddBest(experiment, size.columns, top);
  std::vector<Spans> bottom;
  AddWaiting(facts.status, CellText(experiment.Find("id")) + "/", bottom);
  AddError(experiment, bottom);
  std::vector<Spans> rungs;
  if (rows > kLeastRows) AddRungs(experiment, rungs);
  size_t taken = top.size() + bottom.size() + rungs.size();
  AddNodes(facts.nodes, rows > taken ? rows - taken : 0, rungs);
  // When there is little room, the lines of nodes go before the newest error.
  top.insert(top.end(), rungs.begin(), rungs.end());
  size_t room = rows > bottom.size() ? rows - bottom.size() : 1;
  CutTo(room, top);
  top.insert(top.end(), bottom.begin(), bottom.end());
  return Fit(std::move(top), size);
}

std::vector<std::string> RenderClusterFrame(const LiveFacts& facts, const FrameSize& size) {
  const Json empty;
  const Json* found = facts.status.Find("cluster");
  const Json& cluster = found == nullptr ? empty : *found;
  std::vector<Spans> lines = {{{"cluster ", Ink::kPlain},
                               {cluster.GetString("name"), Ink::kBold},
                               {"  " + cluster.GetString("head_address") + "  up " +
                                    DurationText(cluster.GetDouble("uptime_s")), Ink::kPlain}}};
  size_t rows = std::max<size_t>(size.rows, 2) - 1;
  AddNodes(facts.nodes, std::max<size_t>(2, rows / 3), lines);
  AddWaiting(facts.status, "", lines);
  bool some = false;
  for (const Json* item : OpenExperiments(facts.status)) {
    lines.push_back(Title(*item));
    lines.push_back(ProgressBar(*item, size.columns));
    lines.push_back(Counts(*item));
    AddBest(*item, size.columns, lines);
    some = true;
  }
  if (const Json* items = facts.status.Find("jobs"); items && items->is_array())
    for (const Json& job : items->array()) {
      std::string state = job.GetString("state");
      if (IsOver(state) || state == "SUCCEEDED") continue;
      lines.push_back({{"job " + CellText(job.Find("id")) + " ", Ink::kPlain},
                       {job.GetString("name"), Ink::kBold},
                       {"  ", Ink::kPlain},
                       {state, InkOfState(state)},
                       {"  " + DurationText(job.GetDouble("runtime_s")), Ink::kPlain}});
      some = true;
    }
  if (!some) lines.push_back({{"no experiment and no job is open", Ink::kFaint}});
  return Fit(std::move(lines), size);
}

std::string ProgressLine(const Json& experiment) {
  std::string text = "experiment " + CellText(experiment.Find("id")) + " " +
                     experiment.GetString("state") + "  " + CountText(experiment);
  for (const char* state : {"RUNNING", "PAUSED", "FAILED"})
    if (int64_t count = CountOf(experiment, state); count > 0)
      text += ", " + std::to_string(count) + " " + state;
  const Json* best = experiment.Find("best");
  if (best != nullptr && best->is_object())
    text += "; best so far " + experiment.GetString("metric", "value") + " " +
            CellText(best->Find("value")) + " (trial " + best->GetString("trial_id") + ", step " +
            CellText(best->Find("step")) + ")";
  return EscapeControl(text);
}

std::string ProgressMark(const Json& experiment) {
  return experiment.GetString("state") + (CountOf(experiment, "FAILED") > 0 ? " FAILED" : "");
}

std::vector<size_t> WidthsOf(const std::vector<std::string>& lines) {
  std::vector<size_t> widths;
  for (const std::string& line : lines) widths.push_back(VisibleWidth(line));
  return widths;
}

size_t RowsAt(const std::vector<size_t>& widths, size_t columns) {
  size_t rows = 0;
  for (size_t width : widths)
    rows += std::max<size_t>(1, (width + columns - 1) / std::max<size_t>(1, columns));
  return rows;
}

std::string PaintText(const std::vector<std::string>& lines, size_t over) {
  std::string text;
  if (over > 0) text += "\x1b[" + std::to_string(over) + "A";
  text += "\r\x1b[?7l";  // Without wrapping, a line is a row whatever its characters are.
  for (const std::string& line : lines) text += line + "\x1b[K\n";
  return text + "\x1b[J\x1b[?7h";
}

}  // namespace rt
