#include "head/sinks/cursor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "common/base/json.h"
#include "common/base/status.h"

namespace rt {

absl::StatusOr<SinkCursor> ReadCursor(const std::string& path) {
  SinkCursor cursor;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (access(path.c_str(), F_OK) != 0) return cursor;
    return ErrnoStatus(errno, "open " + path);
  }
  std::ostringstream text;
  text << file.rdbuf();
  absl::StatusOr<Json> json = Json::Parse(text.str());
  if (!json.ok()) return Annotate(json.status(), path);
  cursor.seq = static_cast<uint64_t>(json->GetInt("seq"));
  const Json* open = json->Find("open");
  if (open == nullptr || !open->is_object()) return absl::DataLossError(path + ": no open trials");
  for (const auto& [name, value] : open->object()) {
    std::optional<TrialId> trial = ParseTrialId(name);
    if (!trial.has_value()) return absl::DataLossError(path + ": not a trial: " + name);
    TrialFilesMark& mark = cursor.open[*trial];
    mark.json_bytes = static_cast<uint64_t>(value.GetInt("json"));
    mark.csv_bytes = static_cast<uint64_t>(value.GetInt("csv"));
    mark.events_bytes = static_cast<uint64_t>(value.GetInt("events"));
    const Json* columns = value.Find("columns");
    if (columns == nullptr || !columns->is_array()) continue;
    for (const Json& column : columns->array()) {
      if (column.is_string()) mark.columns.push_back(column.AsString());
    }
  }
  const Json* unbegun = json->Find("unbegun");
  if (unbegun != nullptr && unbegun->is_array())
    for (const Json& id : unbegun->array())
      if (id.is_int()) cursor.unbegun.insert({static_cast<uint64_t>(id.AsInt())});
  const Json* refused = json->Find("refused");
  if (refused == nullptr || !refused->is_array()) return cursor;
  for (const Json& name : refused->array()) {
    std::optional<TrialId> trial = name.is_string() ? ParseTrialId(name.AsString()) : std::nullopt;
    if (!trial.has_value()) return absl::DataLossError(path + ": not a trial: " + name.Dump());
    cursor.refused.insert(*trial);
  }
  return cursor;
}

absl::Status WriteCursor(const std::string& path, const SinkCursor& cursor) {
  Json::Object open;
  for (const auto& [trial, mark] : cursor.open) {
    Json::Array columns(mark.columns.begin(), mark.columns.end());
    open.emplace_back(ToString(trial), Json::MakeObject({{"json", Json(mark.json_bytes)},
                                                         {"csv", Json(mark.csv_bytes)},
                                                         {"events", Json(mark.events_bytes)},
                                                         {"columns", Json(std::move(columns))}}));
  }
  Json::Array refused;
  for (TrialId trial : cursor.refused) refused.emplace_back(ToString(trial));
  Json::Array unbegun;
  for (ExperimentId id : cursor.unbegun) unbegun.emplace_back(id.value);
  const std::string text = Json::MakeObject({{"seq", Json(cursor.seq)},
                                             {"open", Json(std::move(open))},
                                             {"refused", Json(std::move(refused))},
                                             {"unbegun", Json(std::move(unbegun))}}).Dump();
  const std::string temporary = path + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, "open " + temporary);
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(fd, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    written += static_cast<size_t>(count);
  }
  const bool synced = written == text.size() && fdatasync(fd) == 0;
  const int error = errno;
  close(fd);
  if (!synced) return ErrnoStatus(error, "write " + temporary);
  if (rename(temporary.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "rename " + path);
  return absl::OkStatus();
}

}  // namespace rt
