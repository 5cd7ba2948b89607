#include "head/sinks/trial_files.h"

#include <cmath>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/sinks/tensorboard.h"

namespace rt {
namespace {

// What a worker lets a trial report, with room for what the head fills in.
constexpr size_t kColumnsMax = limits::kMetricKeysPerTrial + 64;

// The row as progress.csv shows it: one level, without the configuration.
Json::Object CsvCells(const Json& result) {
  Json cells = result;
  cells.Erase("config");
  cells = Flatten(cells);
  return std::move(cells.object());
}

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

// As Python's csv module writes the same values.
std::string CsvText(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_bool()) return value.AsBool() ? "True" : "False";
  if (value.is_double() && std::isnan(value.AsDouble())) return "nan";
  if (value.is_double() && std::isinf(value.AsDouble())) {
    return value.AsDouble() > 0 ? "inf" : "-inf";
  }
  if (value.is_string()) return Quoted(value.AsString());
  return Quoted(value.Dump());
}

std::string HeaderLine(const std::vector<std::string>& columns) {
  std::string line;
  for (const std::string& column : columns) {
    if (&column != &columns.front()) line += ',';
    line += Quoted(column);
  }
  return line + '\n';
}

}  // namespace

TrialFiles::TrialFiles(TrialFacts facts, TrialFilesMark mark)
    : facts_(std::move(facts)), mark_(std::move(mark)) {
  for (const std::string& name : mark_.columns) column_.emplace(name, column_.size());
  line_.resize(mark_.columns.size());
}

// Whether there is one now.
bool TrialFiles::AddColumn(const std::string& name) {
  if (column_.contains(name)) return true;
  if (mark_.columns.size() >= kColumnsMax) {
    lacks_columns_ = true;
    return false;
  }
  column_.emplace(name, mark_.columns.size());
  mark_.columns.push_back(name);
  line_.push_back(nullptr);
  return true;
}

// Keys without a column are left out.
std::string TrialFiles::CsvLine(const Json::Object& cells) {
  for (const auto& [name, value] : cells) {
    const auto column = column_.find(name);
    if (column == column_.end()) continue;
    const Json*& slot = line_[column->second];
    if (slot == nullptr) slot = &value;
  }
  std::string line;
  for (const Json*& value : line_) {
    if (&value != &line_.front()) line += ',';
    if (value != nullptr) line += CsvText(*value);
    value = nullptr;
  }
  return line + '\n';
}

bool TrialFiles::Add(const Json& result) {
  const Json::Object cells = CsvCells(result);
  if (mark_.columns.empty() && mark_.csv_bytes == 0) {
    for (const auto& [name, value] : cells) AddColumn(name);
    csv_ = HeaderLine(mark_.columns);
  }
  for (const auto& [name, value] : cells) {
    if (column_.contains(name)) continue;
    if (mark_.columns.size() < kColumnsMax) return false;
    lacks_columns_ = true;
  }
  json_ += result.Dump() + '\n';
  csv_ += CsvLine(cells);
  AddScalars(result, cells);
  return true;
}

void TrialFiles::AddScalars(const Json& result, const Json::Object& cells) {
  const Millis at = result.GetInt("timestamp") * 1000;
  if (mark_.events_bytes == 0 && events_.empty()) {
    auto params = Json::Parse(facts_.params);
    events_ = tensorboard::Header(at) +
              tensorboard::SessionStart(facts_.created_at, facts_.name,
                                        params.ok() ? *params : Json::MakeObject());
  }
  const double step = result.GetDouble("training_iteration");
  events_ += tensorboard::Scalars(at, static_cast<int64_t>(step), cells);
}

void TrialFiles::AddEnd(Millis at, TrialEnd end) {
  if (mark_.events_bytes == 0 && events_.empty()) return;  // Without a row there is no run to end.
  events_ += tensorboard::SessionEnd(at, end);
}

absl::Status TrialFiles::Flush(const Folder& experiment) {
  if (json_.empty() && events_.empty()) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(const Folder trial, experiment.Enter(facts_.directory));
  if (!json_.empty()) {
    RT_RETURN_IF_ERROR(trial.Append("result.json", json_, mark_.json_bytes));
    RT_RETURN_IF_ERROR(trial.Append("progress.csv", csv_, mark_.csv_bytes));
  }
  RT_RETURN_IF_ERROR(trial.Append(tensorboard::FileName(facts_.created_at), events_,
                                  mark_.events_bytes));
  json_.clear();
  csv_.clear();
  events_.clear();
  return absl::OkStatus();
}

absl::Status TrialFiles::Rewrite(const Folder& experiment, const std::vector<Json>& results,
                                 Millis ended_at, TrialEnd end) {
  RT_ASSIGN_OR_RETURN(const Folder trial, experiment.Enter(facts_.directory));
  mark_ = {};
  lacks_columns_ = false;
  column_.clear();
  line_.clear();
  json_.clear();
  events_.clear();
  for (const Json& result : results) {
    const Json::Object cells = CsvCells(result);
    json_ += result.Dump() + '\n';
    AddScalars(result, cells);
    for (const auto& [name, value] : cells) AddColumn(name);
  }
  csv_ = results.empty() ? "" : HeaderLine(mark_.columns);
  for (const Json& result : results) csv_ += CsvLine(CsvCells(result));
  if (end != TrialEnd::kNone) AddEnd(ended_at, end);
  RT_RETURN_IF_ERROR(trial.Replace("result.json", json_));
  RT_RETURN_IF_ERROR(trial.Replace("progress.csv", csv_));
  if (!events_.empty())
    RT_RETURN_IF_ERROR(trial.Replace(tensorboard::FileName(facts_.created_at), events_));
  mark_.json_bytes = json_.size();
  mark_.csv_bytes = csv_.size();
  mark_.events_bytes = events_.size();
  json_.clear();
  csv_.clear();
  events_.clear();
  return absl::OkStatus();
}

absl::Status WriteExperiment(const Folder& experiment, Millis created_at,
                             const ExperimentSpec& spec) {
  return experiment.Replace(
      tensorboard::FileName(created_at),
      tensorboard::Header(created_at) + tensorboard::Experiment(created_at, spec));
}

absl::Status WriteParams(const Folder& trial, const std::string& params) {
  absl::StatusOr<Json> json = Json::Parse(params);
  return trial.Replace("params.json", json.ok() ? json->Pretty() + "\n" : params);
}

absl::Status WritePolicy(const Folder& experiment, TrialId trial, const std::string& lines) {
  const std::string name = "pbt_policy_" + std::to_string(trial.experiment.value) + "_" +
                           std::to_string(trial.number) + ".txt";
  return experiment.Replace(name, lines);
}

absl::Status WriteError(const Folder& trial, const ErrorInfo& error, const std::string& reason) {
  std::string text = error.traceback;
  if (text.empty()) text = error.kind + ": " + error.message;
  if (error.kind.empty() && error.message.empty()) text = reason;
  if (!text.ends_with('\n')) text += '\n';
  return trial.Replace("error.txt", text);
}

absl::Status RemoveError(const Folder& trial) { return trial.Remove("error.txt"); }

}  // namespace rt
