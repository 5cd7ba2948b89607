#include "cli/render/front.h"

#include <algorithm>
#include <cmath>

#include "cli/render/nouns.h"
#include "cli/render/table.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/pareto.h"

namespace rt {
namespace {

std::optional<double> NumberOf(const Json& trial, const std::string& key) {
  const Json* metrics = trial.Find("metrics");
  if (metrics == nullptr || !metrics->is_object()) return std::nullopt;
  const std::optional<double> value =
      RowValue({*metrics, trial.GetDouble("step"), metrics->GetDouble("time_total_s")}, key);
  return value.has_value() && std::isnan(*value) ? std::nullopt : value;
}

}  // namespace

std::optional<FrontTrials> FrontTrials::Of(const Json& experiment) {
  const Json* objectives = experiment.Find("objectives");
  if (objectives == nullptr || !objectives->is_array()) return std::nullopt;
  FrontTrials front;
  for (const Json& each : objectives->array())
    front.objectives_.push_back(
        {each.GetString("metric"), each.GetString("mode") == "max" ? -1.0 : 1.0});
  const Json* constraints = experiment.Find("constraints");
  if (constraints == nullptr || !constraints->is_object()) return front;
  for (const auto& [key, bound] : constraints->object()) {
    if (!bound.is_object() || bound.object().empty()) continue;
    const auto& [comparison, threshold] = bound.object().front();
    front.bounds_.push_back({key, comparison == ">=" ? -1.0 : 1.0, threshold.AsDouble()});
  }
  return front;
}

void FrontTrials::Add(const Json& trial) {
  if (trial.GetString("state") == "FAILED") return;
  std::vector<double> values;
  for (const Objective& objective : objectives_) {
    const std::optional<double> value = NumberOf(trial, objective.metric);
    if (!value.has_value()) return;
    values.push_back(objective.sign * *value);
  }
  for (const Bound& bound : bounds_) {
    const std::optional<double> value = NumberOf(trial, bound.key);
    if (!value.has_value() || bound.sign * *value > bound.sign * bound.threshold) return;
  }
  trials_.push_back(trial);
  values_.push_back(std::move(values));
}

std::vector<size_t> FrontTrials::Places() const {
  std::vector<size_t> front = FrontOf(values_);
  std::stable_sort(front.begin(), front.end(),
                   [&](size_t a, size_t b) { return values_[a][0] < values_[b][0]; });
  return front;
}

std::vector<Json> FrontTrials::Front() const {
  std::vector<Json> front;
  for (const size_t i : Places()) front.push_back(trials_[i]);
  return front;
}

std::vector<double> FrontTrials::Reference() const {
  std::vector<double> reference(objectives_.size(), -HUGE_VAL);
  for (const std::vector<double>& each : values_)
    for (size_t k = 0; k < reference.size(); ++k)
      if (std::isfinite(each[k])) reference[k] = std::max(reference[k], each[k]);
  return reference;
}

Json FrontTrials::Worst() const {
  const std::vector<double> reference = Reference();
  Json worst = Json::MakeObject();
  for (size_t k = 0; k < objectives_.size(); ++k)
    worst.Set(objectives_[k].metric,
              std::isfinite(reference[k]) ? Json(objectives_[k].sign * reference[k]) : Json());
  return worst;
}

std::optional<double> FrontTrials::Hypervolume() const {
  constexpr size_t kQuick = 3, kFrontMax = 100;  // The time is exponential in further objectives.
  if (objectives_.size() > kQuick && Places().size() > kFrontMax) return std::nullopt;
  return rt::Hypervolume(values_, Reference());
}

std::string FrontTrials::Render() const {
  const std::vector<Json> front = Front();
  if (front.empty()) return "";
  std::vector<std::string> names;
  std::vector<Json> flat;
  for (const Json& trial : front) {
    const Json* params = trial.Find("params");
    flat.push_back(params != nullptr && params->is_object() ? Flatten(*params)
                                                            : Json::MakeObject());
    for (const auto& [name, value] : flat.back().object())
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::erase_if(names, [&](const std::string& name) {
    const auto is_first = [&](const Json& params) {
      const Json *value = params.Find(name), *first = flat.front().Find(name);
      return value != nullptr && first != nullptr && *value == *first;
    };
    return flat.size() > 1 && std::all_of(flat.begin(), flat.end(), is_first);
  });
  std::vector<std::string> header = {"TRIAL", "STATE", "STEP"};
  for (const Objective& objective : objectives_) header.push_back(objective.metric);
  header.insert(header.end(), names.begin(), names.end());
  Table table(header);
  for (size_t i = 0; i < front.size(); ++i) {
    std::vector<std::string> row = {CellText(front[i].Find("id")), CellText(front[i].Find("state")),
                                    CellText(front[i].Find("step"))};
    for (const Objective& objective : objectives_) {
      const Json value(*NumberOf(front[i], objective.metric));
      row.push_back(CellText(&value));
    }
    for (const std::string& name : names) row.push_back(CellText(flat[i].Find(name)));
    table.Add(std::move(row));
  }
  const std::optional<double> hypervolume = Hypervolume();
  if (!hypervolume) return table.Render();
  const Json volume(*hypervolume);
  return table.Render() + "hypervolume " + CellText(&volume) +
         ", measured from the worst value of each objective\n";
}

}  // namespace rt
