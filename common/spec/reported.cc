#include "common/spec/reported.h"

#include <algorithm>
#include <vector>

#include "common/base/strings.h"

namespace rt {
namespace {

constexpr size_t kNamesShown = 10;

// What clients add to each row, and what they and Ray name in a row without reporting it.
bool IsFilledIn(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "checkpoint_dir_name", "config",           "date",
      "done",                "experiment_tag",   "hostname",
      "iterations_since_restore", "node_ip",     "pid",
      "should_checkpoint",   "time_since_restore", "time_this_iter_s",
      "timestamp",           "timesteps_since_restore", "trial_id"};
  const std::string_view top = name.substr(0, name.find('/'));  // "config/lr"
  return IsCounter(name) ||
         std::find(std::begin(kNames), std::end(kNames), top) != std::end(kNames);
}

std::vector<std::string> NamesOf(const Json& metrics) {
  std::vector<std::string> names;
  if (!metrics.is_object()) return names;
  const Json flat = Flatten(metrics);
  for (const auto& [name, value] : flat.object())
    if (!IsFilledIn(name)) names.push_back(name);
  return names;
}

// A name that ends with the wanted one after a '/' is nearer than any misspelling.
std::string Nearest(std::string_view wanted, const std::vector<std::string>& names) {
  const std::string suffix = "/" + std::string(wanted);
  for (const std::string& name : names)
    if (name.ends_with(suffix)) return name;
  return NearestWord(wanted, names).value_or("");
}

}  // namespace

bool IsCounter(std::string_view key) {
  return key == "training_iteration" || key == "time_total_s";
}

std::string ReportedText(const Json& metrics, std::string_view wanted) {
  const std::vector<std::string> names = NamesOf(metrics);
  std::string text = "reported: ";
  for (size_t i = 0; i < std::min(names.size(), kNamesShown); ++i)
    text += (i == 0 ? "" : ", ") + Excerpt(names[i]);
  if (names.empty()) text += "nothing";
  if (names.size() > kNamesShown)
    text += " and " + std::to_string(names.size() - kNamesShown) + " more";
  const std::string near = Nearest(wanted, names);
  return near.empty() || near == wanted ? text : text + "; did you mean '" + Excerpt(near) + "'?";
}

std::optional<std::string> MetricProblem(const RowView& row, std::string_view metric) {
  if (metric.empty() || RowValue(row, metric).has_value()) return std::nullopt;
  const Json* value = FindFlat(row.metrics, metric);
  if (value != nullptr && value->is_null()) return std::nullopt;
  if (value != nullptr && !value->is_object())
    return "a row's metric '" + Excerpt(metric) + "' is not a number: " + Excerpt(value->Dump());
  if (value == nullptr && NamesOf(row.metrics).empty()) return std::nullopt;
  return "a report does not have the metric '" + Excerpt(metric) + "'; " +
         ReportedText(row.metrics, metric);
}

}  // namespace rt
