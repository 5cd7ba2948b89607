#include "cli/render/best.h"

#include <algorithm>
#include <cmath>

#include "cli/render/nouns.h"
#include "cli/render/spans.h"
#include "cli/render/table.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr size_t kBestWidthMax = 100;
constexpr double kLogFrom = 50;  // A range this wide is shown on a logarithmic scale.

std::optional<double> ValueOf(const Json& trial) {
  const Json* best = trial.Find("best");
  const Json* value = best == nullptr ? nullptr : best->Find("value");
  if (value == nullptr || !value->HasDouble()) return std::nullopt;
  return value->AsDouble();
}

// One of eight heights for a place between the least and the greatest.
std::string Mark(double value, double least, double greatest) {
  static const char* const kMarks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (!(greatest > least)) return "";
  if (least > 0 && greatest / least >= kLogFrom) {
    value = std::log(value);
    least = std::log(least);
    greatest = std::log(greatest);
  }
  double place = (value - least) / (greatest - least);
  if (!std::isfinite(place)) return "";
  return kMarks[static_cast<size_t>(std::clamp(place, 0.0, 1.0) * 7 + 0.5)];
}

}  // namespace

void BestTrials::Add(const Json& trial) {
  const Json* params = trial.Find("params");
  const bool some = params != nullptr && params->is_object();
  const Json flat = some ? Flatten(*params) : Json::MakeObject();
  for (const auto& [name, value] : flat.object()) {
    auto [found, added] = ranges_.try_emplace(name);
    Range& range = found->second;
    if (added) {
      names_.push_back(name);
      range.first = value;
    }
    range.varies = range.varies || !(value == range.first);
    if (!value.is_number()) continue;
    range.least = std::min(range.least.value_or(value.AsDouble()), value.AsDouble());
    range.greatest = std::max(range.greatest.value_or(value.AsDouble()), value.AsDouble());
  }
  std::optional<double> value = ValueOf(trial);
  if (!value.has_value() || std::isnan(*value)) return;
  auto worse = [&](const Json& other) {
    return maximise_ ? *ValueOf(other) < *value : *ValueOf(other) > *value;
  };
  best_.insert(std::find_if(best_.begin(), best_.end(), worse), trial);
  if (best_.size() > most_) best_.pop_back();
}

std::string BestTrials::Cell(const Json& params, const std::string& name,
                             const Range& range) const {
  const Json flat = params.is_object() ? Flatten(params) : Json::MakeObject();
  const Json* value = flat.Find(name);
  std::string text = CellText(value);
  if (value == nullptr || !value->is_number() || !range.least.has_value()) return text;
  std::string mark = Mark(value->AsDouble(), *range.least, *range.greatest);
  return mark.empty() ? text : text + " " + mark;
}

std::string BestTrials::Render(const std::string& metric) const {
  if (best_.empty()) return "";
  std::vector<std::string> header = {"TRIAL", "STATE", "STEP", metric};
  std::vector<std::string> same;
  for (const std::string& name : names_) {
    const Range& range = ranges_.at(name);
    if (range.varies) header.push_back(name);
    else same.push_back(name + "=" + CellText(&range.first));
  }
  Table table(header);
  std::vector<std::string> ends = {"range", "", "", ""};
  for (size_t i = 4; i < header.size(); ++i) {
    const Range& range = ranges_.at(header[i]);
    Json least(range.least.value_or(0)), greatest(range.greatest.value_or(0));
    ends.push_back(range.least.has_value() ? CellText(&least) + "…" + CellText(&greatest) : "");
  }
  if (header.size() > 4) table.Add(std::move(ends));
  for (const Json& trial : best_) {
    const Json* best = trial.Find("best");
    const Json* params = trial.Find("params");
    std::vector<std::string> row = {CellText(trial.Find("id")), CellText(trial.Find("state")),
                                    CellText(best->Find("step")), CellText(best->Find("value"))};
    for (size_t i = 4; i < header.size(); ++i)
      row.push_back(params == nullptr ? "-" : Cell(*params, header[i], ranges_.at(header[i])));
    table.Add(std::move(row));
  }
  std::string text = table.Render();
  if (same.empty()) return text;
  Spans line = {{"same in all trials: " + Join(same, ", "), Ink::kPlain}};
  return text + RenderSpans(line, kBestWidthMax, false) + "\n";
}

// "3/7 0.12, 3/2 0.15, ..." of the trials that are at a rung, the best first.
static std::string Occupants(const Json* trials) {
  constexpr size_t kShown = 3;
  if (trials == nullptr || !trials->is_array()) return "";  // Of a head of an earlier release.
  std::string text;
  const Json::Array& all = trials->array();
  for (size_t i = 0; i < std::min(kShown, all.size()); ++i)
    text += (text.empty() ? "" : ", ") + all[i].GetString("trial_id") + " " +
            CellText(all[i].Find("value"));
  return all.size() > kShown ? text + ", ..." : text;
}

std::string RenderRungs(const Json& rungs) {
  if (!rungs.is_array() || rungs.array().empty()) return "";
  Table table({"BRACKET", "MILESTONE", "REACHED", "STOPPED", "PAUSED", "CONTINUED", "BEST AT IT"});
  for (const Json& rung : rungs.array()) {
    const Json paused(rung.GetInt("paused"));  // A head of an earlier release does not say it.
    const Json on(rung.GetInt("recorded") - rung.GetInt("stopped") - paused.AsInt());
    table.Add({CellText(rung.Find("bracket")), CellText(rung.Find("milestone")),
               CellText(rung.Find("recorded")), CellText(rung.Find("stopped")), CellText(&paused),
               CellText(&on), Occupants(rung.Find("trials"))});
  }
  return table.Render();
}

std::string RenderBelief(const Json& search_model, const std::string& metric) {
  if (!search_model.is_object()) return "";
  Table table({"TRIAL", "", metric, "FROM", "TO"});
  const auto add = [&](const char* key, const char* what) {
    const Json* each = search_model.Find(key);
    if (each == nullptr || !each->is_object()) return;
    const std::string trial = each->GetString("trial_id");
    table.Add({trial.empty() ? "-" : trial, what, CellText(each->Find("value")),
               CellText(each->Find("low")), CellText(each->Find("high"))});
  };
  add("best", "the best one");
  add("next", "proposed last");
  return table.Render();
}

std::string RenderAllocation(const Json& allocation) {
  constexpr size_t kLines = 20;
  constexpr int64_t kBarMax = 60;
  if (!allocation.is_array() || allocation.array().empty()) return "";
  Table table({"FROM", "RANKS", ""});
  const Json::Array& all = allocation.array();
  for (size_t i = all.size() > kLines ? all.size() - kLines : 0; i < all.size(); ++i) {
    const int64_t ranks = std::clamp<int64_t>(all[i].GetInt("ranks"), 0, kBarMax);
    table.Add({CellText(all[i].Find("at")), CellText(all[i].Find("ranks")),
               std::string(static_cast<size_t>(ranks), '#')});
  }
  return table.Render();
}

std::string RenderPopulation(const Json& population) {
  if (!population.is_array() || population.array().empty()) return "";
  Table table({"TRIAL", "VALUE", "COMPARED AT", "CLONES", "CLONED FROM"});
  for (const Json& member : population.array())
    table.Add({CellText(member.Find("trial")), CellText(member.Find("score")),
               CellText(member.Find("compared_at")), CellText(member.Find("clones")),
               CellText(member.Find("cloned_from"))});
  return table.Render();
}

}  // namespace rt
