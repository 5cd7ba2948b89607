#include "head/sinks/trial_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "common/base/status.h"
#include "head/sinks/tensorboard.h"

namespace rt {
namespace {

absl::Status WriteAll(int fd, const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(fd, text.data() + written, text.size() - written);
    if (count >= 0) {
      written += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, "write");
    }
  }
  return absl::OkStatus();
}

absl::Status MakeDirectory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  return error ? ErrnoStatus(error.value(), "create " + directory) : absl::OkStatus();
}

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

std::string CsvLine(const std::vector<std::string>& columns, const Json::Object& cells) {
  std::string line;
  for (const std::string& column : columns) {
    if (&column != &columns.front()) line += ',';
    auto cell = std::find_if(cells.begin(), cells.end(),
                             [&](const Json::Member& member) { return member.first == column; });
    if (cell != cells.end()) line += CsvText(cell->second);
  }
  return line + '\n';
}

bool Contains(const std::vector<std::string>& columns, const std::string& name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

}  // namespace

bool TrialFiles::Add(const Json& result) {
  const Json::Object cells = CsvCells(result);
  if (mark_.columns.empty() && mark_.csv_bytes == 0) {
    for (const auto& [name, value] : cells) mark_.columns.push_back(name);
    csv_ = HeaderLine(mark_.columns);
  }
  for (const auto& [name, value] : cells) {
    if (!Contains(mark_.columns, name)) return false;
  }
  json_ += result.Dump() + '\n';
  csv_ += CsvLine(mark_.columns, cells);
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

absl::Status TrialFiles::Append(const std::string& name, const std::string& text,
                                uint64_t& length) {
  const std::string path = facts_.directory + "/" + name;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return ErrnoStatus(errno, "open " + path);
  struct stat found;
  absl::Status status;
  if (fstat(fd, &found) != 0) {
    status = ErrnoStatus(errno, "stat");
  } else if (static_cast<uint64_t>(found.st_size) < length) {
    status = absl::FailedPreconditionError("it is shorter than it was");
  } else if (ftruncate(fd, static_cast<off_t>(length)) != 0 ||
             lseek(fd, static_cast<off_t>(length), SEEK_SET) < 0) {
    status = ErrnoStatus(errno, "truncate");
  } else {
    status = WriteAll(fd, text);
  }
  close(fd);
  if (!status.ok()) return Annotate(status, path);
  length += text.size();
  return absl::OkStatus();
}

absl::Status TrialFiles::Flush() {
  if (json_.empty() && events_.empty()) return absl::OkStatus();
  if (mark_.json_bytes == 0) RT_RETURN_IF_ERROR(MakeDirectory(facts_.directory));
  const std::string events = tensorboard::FileName(facts_.created_at);
  if (!json_.empty()) {
    RT_RETURN_IF_ERROR(Append("result.json", json_, mark_.json_bytes));
    RT_RETURN_IF_ERROR(Append("progress.csv", csv_, mark_.csv_bytes));
  }
  RT_RETURN_IF_ERROR(Append(events, events_, mark_.events_bytes));
  json_.clear();
  csv_.clear();
  events_.clear();
  return absl::OkStatus();
}

absl::Status TrialFiles::Rewrite(const std::vector<Json>& results, Millis ended_at,
                                 TrialEnd end) {
  RT_RETURN_IF_ERROR(MakeDirectory(facts_.directory));
  mark_ = {};
  json_.clear();
  events_.clear();
  std::vector<Json::Object> lines;
  for (const Json& result : results) {
    lines.push_back(CsvCells(result));
    json_ += result.Dump() + '\n';
    AddScalars(result, lines.back());
    for (const auto& [name, value] : lines.back()) {
      if (!Contains(mark_.columns, name)) mark_.columns.push_back(name);
    }
  }
  csv_ = results.empty() ? "" : HeaderLine(mark_.columns);
  for (const Json::Object& cells : lines) csv_ += CsvLine(mark_.columns, cells);
  if (end != TrialEnd::kNone) AddEnd(ended_at, end);
  const std::string& directory = facts_.directory;
  RT_RETURN_IF_ERROR(ReplaceFile(directory + "/result.json", json_));
  RT_RETURN_IF_ERROR(ReplaceFile(directory + "/progress.csv", csv_));
  if (!events_.empty())
    RT_RETURN_IF_ERROR(
        ReplaceFile(directory + "/" + tensorboard::FileName(facts_.created_at), events_));
  mark_.json_bytes = json_.size();
  mark_.csv_bytes = csv_.size();
  mark_.events_bytes = events_.size();
  json_.clear();
  csv_.clear();
  events_.clear();
  return absl::OkStatus();
}

absl::Status ReplaceFile(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                      0644);
  if (fd < 0) return ErrnoStatus(errno, "open " + temporary);
  absl::Status status = WriteAll(fd, text);
  close(fd);
  if (!status.ok()) return Annotate(status, temporary);
  if (rename(temporary.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "rename " + path);
  return absl::OkStatus();
}

absl::Status WriteExperiment(const std::string& directory, Millis created_at,
                             const ExperimentSpec& spec) {
  RT_RETURN_IF_ERROR(MakeDirectory(directory));
  return ReplaceFile(
      directory + "/" + tensorboard::FileName(created_at),
      tensorboard::Header(created_at) + tensorboard::Experiment(created_at, spec));
}

absl::Status WriteParams(const std::string& directory, const std::string& params) {
  RT_RETURN_IF_ERROR(MakeDirectory(directory));
  absl::StatusOr<Json> json = Json::Parse(params);
  return ReplaceFile(directory + "/params.json", json.ok() ? json->Pretty() + "\n" : params);
}

absl::Status WriteError(const std::string& directory, const event::TrialEnded& ended) {
  RT_RETURN_IF_ERROR(MakeDirectory(directory));
  std::string text = ended.error.traceback;
  if (text.empty()) text = ended.error.kind + ": " + ended.error.message;
  if (ended.error.kind.empty() && ended.error.message.empty()) text = ended.reason;
  if (!text.ends_with('\n')) text += '\n';
  return ReplaceFile(directory + "/error.txt", text);
}

absl::Status RemoveError(const std::string& directory) {
  std::error_code error;
  std::filesystem::remove(directory + "/error.txt", error);
  return error ? ErrnoStatus(error.value(), "remove " + directory + "/error.txt")
               : absl::OkStatus();
}

}  // namespace rt
