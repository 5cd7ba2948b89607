#include "cli/render/trials.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "cli/render/nouns.h"
#include "cli/render/spans.h"
#include "cli/render/table.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr size_t kTrialColumns = 100;
constexpr size_t kParamsMax = 6;  // With more columns none would be wide enough to be read.

Json FlatOf(const Json& trial, const char* key) {
  const Json* found = trial.Find(key);
  return found != nullptr && found->is_object() ? Flatten(*found) : Json::MakeObject();
}

struct ParamColumns {
  std::vector<std::string> shown, left_out;
};

ParamColumns ColumnsFor(const std::vector<Json>& trials) {
  std::vector<std::string> names;  // In the order of the space.
  std::map<std::string, std::pair<Json, bool>> seen;  // The first value, and whether others differ.
  for (const Json& trial : trials) {
    const Json params = FlatOf(trial, "params");
    for (const auto& [name, value] : params.object()) {
      auto [found, added] = seen.try_emplace(name, value, false);
      if (added) names.push_back(name);
      else if (!(found->second.first == value)) found->second.second = true;
    }
  }
  const bool some_differ = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return seen.at(name).second;
  });
  ParamColumns columns;
  for (const std::string& name : names) {
    const bool wanted = !some_differ || seen.at(name).second;
    if (wanted && columns.shown.size() < kParamsMax) columns.shown.push_back(name);
    else columns.left_out.push_back(name);
  }
  return columns;
}

std::string RuntimeText(const Json& trial) {
  const Json* seconds = trial.Find("runtime_s");
  return seconds != nullptr && seconds->HasDouble() ? DurationText(seconds->AsDouble()) : "-";
}

// The value by which a trial is sorted; null when it has none.
Json KeyOf(const Json& trial, const std::string& name) {
  if (name == "id" || name == "number")
    return Json(Json::Array{Json(trial.GetInt("experiment_id")), Json(trial.GetInt("number"))});
  if (name == "runtime") return KeyOf(trial, "runtime_s");
  for (const char* part : {"params", "metrics"}) {
    const Json flat = FlatOf(trial, part);
    if (const Json* found = flat.Find(name)) return *found;
  }
  const Json* field = trial.Find(name);
  return field != nullptr && !field->is_object() && !field->is_array() ? *field : Json();
}

// Numbers before texts before null.
int RankOf(const Json& value) {
  if (value.is_array()) return 0;
  if (value.HasDouble()) return 0;
  return value.is_null() ? 2 : 1;
}

bool IsLess(const Json& a, const Json& b) {
  if (a.is_array() && b.is_array())
    return std::pair(a.array()[0].AsInt(), a.array()[1].AsInt()) <
           std::pair(b.array()[0].AsInt(), b.array()[1].AsInt());
  if (a.HasDouble() && b.HasDouble()) return a.AsDouble() < b.AsDouble();
  return CellText(&a) < CellText(&b);
}

}  // namespace

std::string RenderTrials(const std::vector<Json>& trials, const std::string& metric, bool color) {
  const ParamColumns params = ColumnsFor(trials);
  std::vector<std::string> header = {"ID", "STATE", "STEP"};
  header.insert(header.end(), params.shown.begin(), params.shown.end());
  header.push_back(metric.empty() ? "METRICS" : metric);
  header.insert(header.end(), {"RUNTIME", "REASON"});
  Table table(header);
  for (const Json& trial : trials) {
    std::vector<std::string> row = {CellText(trial.Find("id")), CellText(trial.Find("state")),
                                    CellText(trial.Find("step"))};
    const Json flat = FlatOf(trial, "params"), metrics = FlatOf(trial, "metrics");
    for (const std::string& name : params.shown) row.push_back(CellText(flat.Find(name)));
    row.push_back(CellText(metric.empty() ? trial.Find("metrics") : metrics.Find(metric)));
    row.insert(row.end(), {RuntimeText(trial), CellText(trial.Find("reason"))});
    table.Add(std::move(row));
  }
  std::string text = table.Render(kTrialColumns, color);
  if (!params.left_out.empty())
    text += "without a column: " + EscapeControl(Join(params.left_out, ", ")) +
            " (rt trial show has them)\n";
  return text;
}

absl::Status SortTrials(const std::string& key, std::vector<Json>& trials) {
  const bool descending = key.starts_with('-');
  const std::string name = descending ? key.substr(1) : key;
  std::vector<std::pair<Json, size_t>> keys;
  std::vector<std::string> known = {"id", "state", "step", "runtime", "reports", "failures"};
  bool some = trials.empty();
  for (size_t i = 0; i < trials.size(); ++i) {
    keys.push_back({KeyOf(trials[i], name), i});
    some = some || !keys.back().first.is_null();
    for (const char* part : {"params", "metrics"}) {
      const Json flat = FlatOf(trials[i], part);
      for (const auto& [other, value] : flat.object())
        if (std::find(known.begin(), known.end(), other) == known.end()) known.push_back(other);
    }
  }
  const bool is_field = !trials.empty() && trials[0].Find(name) != nullptr;
  if (!some && !is_field) {
    const std::string near = DidYouMean(name, known);
    return Invalid("no trial has a column, parameter or metric '" + name + "' to sort by",
                   near.empty() ? "one of " + Join(known, ", ") : near);
  }
  std::stable_sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) {
    const int rank_a = RankOf(a.first), rank_b = RankOf(b.first);
    if (rank_a != rank_b || rank_a == 2) return rank_a < rank_b;
    return descending ? IsLess(b.first, a.first) : IsLess(a.first, b.first);
  });
  std::vector<Json> sorted;
  for (const auto& [value, index] : keys) sorted.push_back(std::move(trials[index]));
  trials = std::move(sorted);
  return absl::OkStatus();
}

}  // namespace rt
