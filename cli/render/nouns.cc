#include "cli/render/nouns.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "cli/render/table.h"
#include "cli/render/waits.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr double kNearlyFull = 0.9;  // Of a quota: from there on people are warned.
constexpr size_t kColumns = 100;
constexpr size_t kRecentMax = 5;  // Of what is over, as status shows it.

}  // namespace

std::string CellText(const Json* value) {
  if (value == nullptr || value->is_null()) return "-";
  if (value->is_string()) return value->AsString();
  if (value->is_double()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.5g", value->AsDouble());
    return text;
  }
  return value->Dump();
}

namespace {

std::string SpanText(double seconds) {
  char text[32];
  if (seconds < 60) std::snprintf(text, sizeof text, "%.0fs", seconds);
  else if (seconds < 3600) std::snprintf(text, sizeof text, "%.0fm", seconds / 60);
  else if (seconds < 86400) std::snprintf(text, sizeof text, "%.1fh", seconds / 3600);
  else std::snprintf(text, sizeof text, "%.1fd", seconds / 86400);
  return text;
}

std::string SecondsText(const Json* value) {
  if (value == nullptr || !value->HasDouble()) return "-";
  return SpanText(value->AsDouble());
}

std::string ResourcesText(const Json* resources) {
  if (resources == nullptr || !resources->is_object()) return "-";
  std::string text = CellText(resources->Find("cpu")) + " cpu";
  if (resources->GetDouble("gpu") > 0) text += " " + CellText(resources->Find("gpu")) + " gpu";
  return text;
}

std::string BestText(const Json* best) {
  if (best == nullptr || !best->is_object()) return "-";
  return CellText(best->Find("value")) + " (" + CellText(best->Find("trial_id")) + ")";
}

std::vector<std::string> Header(Noun noun) {
  switch (noun) {
    case Noun::kExperiment:
      return {"ID", "NAME", "STATE", "TRIALS", "BEST", "AGE", "REASON"};
    case Noun::kTrial:
      return {"ID", "STATE", "STEP", "PARAMS", "METRICS", "RUNTIME", "REASON"};
    case Noun::kJob:
      return {"ID", "NAME", "STATE", "EXIT", "RUNTIME", "AGE", "REASON"};
    case Noun::kNode:
      return {"ID", "NAME", "STATE", "ADDRESS", "USED", "TOTAL", "SEEN", "REASON"};
    case Noun::kExecutor:
      return {"ID", "NAME", "STATE", "NODE", "OWNER", "RUNTIME", "AGE", "REASON"};
    case Noun::kActor:
      return {"ID", "ACTOR", "CLASS", "STATE", "NODE", "RESTARTS", "AGE", "REASON"};
  }
  return {};
}

const Json* Deep(const Json& json, const char* first, const char* second) {
  const Json* inner = json.Find(first);
  return inner == nullptr || !inner->is_object() ? nullptr : inner->Find(second);
}

std::vector<std::string> Row(Noun noun, const Json& item) {
  auto cell = [&](const char* key) { return CellText(item.Find(key)); };
  switch (noun) {
    case Noun::kExperiment:
      return {cell("id"), cell("name"), cell("state"), CountsText(item.Find("trials_by_state")),
              BestText(item.Find("best")), AgeText(item.Find("created_at")), cell("reason")};
    case Noun::kTrial:
      return {cell("id"), cell("state"), cell("step"), cell("params"), cell("metrics"),
              SecondsText(item.Find("runtime_s")), cell("reason")};
    case Noun::kJob: {
      const Json* signal = item.Find("signal");
      bool killed = signal != nullptr && signal->is_int() && signal->AsInt() != 0;
      return {cell("id"), cell("name"), cell("state"),
              killed ? "signal " + cell("signal") : cell("exit_code"),
              SecondsText(item.Find("runtime_s")), AgeText(item.Find("created_at")),
              cell("reason")};
    }
    case Noun::kNode:
      return {cell("id"), cell("name"), cell("state"), cell("address"),
              ResourcesText(item.Find("resources_used")),
              ResourcesText(item.Find("resources_total")), AgeText(item.Find("last_seen_at")),
              cell("reason")};
    case Noun::kExecutor: {
      const std::string outcome = item.GetString("outcome");
      return {cell("id"),
              cell("name"),
              outcome.empty() ? cell("state") : outcome,
              CellText(Deep(item, "node", "name")),
              cell("owner"),
              SecondsText(item.Find("runtime_s")),
              AgeText(item.Find("created_at")),
              cell("reason")};
    }
    case Noun::kActor:
      return {cell("id"),
              CellText(Deep(item, "actor", "name")),
              CellText(Deep(item, "actor", "class")),
              cell("state"),
              CellText(Deep(item, "node", "name")),
              cell("restarts"),
              AgeText(item.Find("created_at")),
              cell("reason")};
  }
  return {};
}

bool IsOver(const Json& item) {
  const std::string state = item.GetString("state");
  return state == "COMPLETED" || state == "STOPPED" || state == "FAILED" || state == "SUCCEEDED";
}

// What is open and the newest of what is over; with --all everything.
std::string ItemsOf(const Json& status, const char* key, Noun noun,
                    const Invocation& invocation) {
  const Json* items = status.Find(key);
  if (items == nullptr || !items->is_array() || items->array().empty()) return "";
  std::vector<Json> shown;
  size_t over = 0;
  for (auto item = items->array().rbegin(); item != items->array().rend(); ++item)
    if (!IsOver(*item) || ++over <= kRecentMax || invocation.all) shown.push_back(*item);
  std::reverse(shown.begin(), shown.end());
  std::string text = "\n" + RenderItems(noun, shown, invocation);
  const auto left_out = static_cast<size_t>(status.GetInt(std::string(key) + "_left_out"));
  if (const size_t hidden = items->array().size() - shown.size() + left_out; hidden > 0)
    text += "and " + std::to_string(hidden) + " more: rt status --all\n";
  return text;
}

// A table begins with the end of the line before it.
std::string Titled(const char* title, const std::string& table) {
  return table.empty() ? "" : "\n" + std::string(title) + table;
}

std::string WaitsOf(const Json& status, const Invocation& invocation) {
  const std::vector<WaitGroup> groups = GroupWaits(status, "");
  if (groups.empty()) return "";
  Table table({"WAITS", "REASON", "NEEDS", "SINCE"});
  for (const WaitGroup& group : groups)
    table.Add({WhoWaits(group), group.reason, CellText(&group.needs), AgeText(&group.since)});
  const int64_t more = status.GetInt("waiting_left_out");
  std::string rest;
  if (more > 0)
    rest = "and " + std::to_string(more) + " more that wait: rt exp list, rt job list\n";
  return "\n" + table.Render(kColumns, invocation.color_out) + rest;
}

}  // namespace

std::string CountsText(const Json* counts) {
  if (counts == nullptr || !counts->is_object()) return "-";
  std::vector<std::string> parts;
  for (const auto& [state, count] : counts->object())
    if (count.is_int() && count.AsInt() > 0) parts.push_back(state + " " + count.Dump());
  return parts.empty() ? "-" : Join(parts, ", ");
}

std::string StoreText(const Json& status) {
  const Json* store = status.Find("checkpoint_store");
  if (store == nullptr || !store->is_object()) return "";
  const int64_t used = store->GetInt("used_bytes"), quota = store->GetInt("quota_bytes");
  const bool refused = store->GetBool("refused");
  if (quota == 0 && !refused) return "";
  std::string text = BytesText(used) + (quota > 0 ? " of " + BytesText(quota) : "") + " used";
  if (refused) return text + ": new checkpoints wait (" + store->GetString("reason") + ")";
  return IsNearlyFull(*store) ? text + ": nearly full" : text;
}

std::string HistoryText(const Json& status) {
  const Json* other = Deep(status, "cluster", "other_head");
  if (other != nullptr && other->is_object())
    return "node " + other->GetString("heard_by") + " does not believe this head: it has heard one "
           "of epoch " + CellText(other->Find("epoch")) + ", this one's is " +
           CellText(Deep(status, "cluster", "epoch"));
  const Json* lost = Deep(status, "cluster", "rolled_back");
  if (lost == nullptr || !lost->is_object()) return "";
  return "the journal lacks its last " + CellText(lost->Find("records_lost")) +
         " records or more: it ended at record " + CellText(lost->Find("seq")) +
         ", and workers were told what was in record " + CellText(lost->Find("seen_seq"));
}

bool IsNearlyFull(const Json& store) {
  const double quota = store.GetDouble("quota_bytes");
  return quota > 0 && store.GetDouble("used_bytes") >= kNearlyFull * quota;
}

std::string AgeText(const Json* time) {
  if (time == nullptr || !time->is_string()) return "-";
  std::tm parts{};
  if (strptime(time->AsString().c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return "-";
  return SpanText(std::fmax(0, std::difftime(std::time(nullptr), timegm(&parts)))) + " ago";
}

std::string RenderItems(Noun noun, const std::vector<Json>& items, const Invocation& invocation) {
  if (invocation.output == Output::kQuiet) {
    std::string text;
    for (const Json& item : items) text += CellText(item.Find("id")) + "\n";
    return text;
  }
  Table table(Header(noun));
  for (const Json& item : items) table.Add(Row(noun, item));
  return table.Render(kColumns, invocation.color_out);
}

// "request 40 x 1 cpu, 2 x 4 cpu 1 gpu by alice, 3 min ago; 12 not met: pool worker: …".
static std::string RequestedText(const Json* requested) {
  if (requested == nullptr || !requested->is_object()) return "";
  std::vector<std::string> bundles;
  if (const Json* list = requested->Find("bundles"); list != nullptr && list->is_array())
    for (const Json& one : list->array())
      bundles.push_back(CellText(one.Find("count")) + " x " + ResourcesText(one.Find("resources")));
  std::string text = "request " + Join(bundles, ", ");
  if (const std::string by = requested->GetString("by"); !by.empty()) text += " by " + by;
  text += ", " + AgeText(requested->Find("since"));
  if (requested->GetInt("unmet") > 0)
    text +=
        "; " + CellText(requested->Find("unmet")) + " not met: " + requested->GetString("reason");
  return text + "\n";
}

// A line for each pool whose nodes come and go, for what was requested, and for a hook that fails.
static std::string PoolsText(const Json& status) {
  std::string text;
  const Json* pools = status.Find("pools");
  if (pools != nullptr && pools->is_array())
    for (const Json& pool : pools->array()) {
      text += "pool    " + CellText(pool.Find("name")) + ": " + CellText(pool.Find("nodes")) +
              " of at most " + CellText(pool.Find("max_workers")) + " nodes";
      if (pool.GetInt("requested") > 0)
        text += ", " + CellText(pool.Find("requested")) + " requested";
      if (pool.GetInt("releasing") > 0)
        text += ", " + CellText(pool.Find("releasing")) + " being removed";
      if (const std::string reason = pool.GetString("reason"); !reason.empty())
        text += "; " + reason;
      text += "\n";
    }
  text += RequestedText(status.Find("requested_resources"));
  if (const std::string problem = status.GetString("hook_problem"); !problem.empty())
    text += "hooks   " + problem + "\n";
  return text;
}

// "3 executors of 2 sessions (RUNNING 2, PENDING 1)"; "" where there are none.
static std::string ExecutorsText(const Json& status) {
  const Json* total = Deep(status, "executors", "total");
  if (total == nullptr || !total->is_int() || total->AsInt() == 0) return "";
  const Json* sessions = Deep(status, "executors", "sessions");
  const bool is_one = total->AsInt() == 1, is_one_session = CellText(sessions) == "1";
  return "tasks   " + CellText(total) + (is_one ? " executor of " : " executors of ") +
         CellText(sessions) + (is_one_session ? " session (" : " sessions (") +
         CountsText(Deep(status, "executors", "by_state")) + ")\n";
}

std::string RenderStatus(const Json& status, const Invocation& invocation) {
  if (invocation.output == Output::kQuiet)
    return CellText(Deep(status, "cluster", "name")) + "\n";
  std::string text = "cluster " + CellText(Deep(status, "cluster", "name")) + " at " +
                     CellText(Deep(status, "cluster", "head_address")) + ", up " +
                     SecondsText(Deep(status, "cluster", "uptime_s")) + "\n";
  text += "nodes   " + CountsText(Deep(status, "nodes", "by_state")) + "\n";
  if (const Json* resources = status.Find("resources"); resources && resources->is_object())
    for (const char* kind : {"cpu", "gpu"})
      if (const Json* amount = resources->Find(kind))
        text += std::string(kind) + "     " + CellText(amount->Find("used")) + " of " +
                CellText(amount->Find("total")) + " used\n";
  text += PoolsText(status);
  const std::string history = HistoryText(status);
  if (!history.empty()) text += "head    " + history + "\n";
  const Json* port = Deep(status, "cluster", "port_problem");
  if (port != nullptr && port->is_string()) text += "port    " + port->AsString() + "\n";
  const std::string store = StoreText(status);
  if (!store.empty()) text += "store   " + store + "\n";
  text += ExecutorsText(status);
  text += Titled("experiments", ItemsOf(status, "experiments", Noun::kExperiment, invocation));
  text += Titled("jobs", ItemsOf(status, "jobs", Noun::kJob, invocation));
  text += Titled("waiting", WaitsOf(status, invocation));
  return text;
}

}  // namespace rt
