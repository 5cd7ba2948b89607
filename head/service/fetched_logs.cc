#include "head/service/fetched_logs.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/run/files.h"

namespace rt {
namespace fs = std::filesystem;
namespace {

constexpr char kPart[] = ".part";

Bytes SizeOf(const fs::path& directory) {
  Bytes bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const auto size = entry.file_size(error);
    if (!error) bytes += static_cast<Bytes>(size);
  }
  return bytes;
}

}  // namespace

FetchedLogs::FetchedLogs(std::string directory) : directory_(std::move(directory)) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_, error)) {
    if (entry.path().extension() == kPart) RemoveTree(entry.path()).IgnoreError();
    else found.emplace_back(entry.last_write_time(error), entry.path());
  }
  std::sort(found.begin(), found.end());
  for (const auto& [time, path] : found) {
    kept_.emplace_back(path, SizeOf(path));
    bytes_ += kept_.back().second;
  }
}

std::string FetchedLogs::PlaceOf(const Fence& fence) const {
  return directory_ + "/" + rt::ToString(fence);
}

bool FetchedLogs::IsDone(const Fence& fence) const {
  if (Exists(PlaceOf(fence))) return true;
  std::lock_guard lock(mutex_);
  return refused_.contains(fence);
}

absl::Status FetchedLogs::Keep(const Fence& fence,
                               const std::map<std::string, FetchedLog>& streams) {
  const absl::Status written = Write(fence, streams);
  if (!written.ok()) {
    std::lock_guard lock(mutex_);
    refused_.insert(fence);
    if (refused_.size() > limits::kFetchedLogsMax) refused_.erase(refused_.begin());
  }
  return written;
}

absl::Status FetchedLogs::Write(const Fence& fence,
                                const std::map<std::string, FetchedLog>& streams) {
  const std::string place = PlaceOf(fence), part = place + kPart;
  RT_RETURN_IF_ERROR(RemoveTree(part));
  RT_RETURN_IF_ERROR(EnsureDirectory(part));
  Bytes bytes = 0;
  for (const auto& [stream, log] : streams) {
    if (log.bytes.empty()) continue;
    RT_RETURN_IF_ERROR(WriteFileAtomic(part + "/" + stream + "." + std::to_string(log.offset),
                                       log.bytes, {.sync = false}));
    bytes += static_cast<Bytes>(log.bytes.size());
  }
  if (std::rename(part.c_str(), place.c_str()) != 0) return ErrnoStatus(errno, "rename " + part);
  std::lock_guard lock(mutex_);
  kept_.emplace_back(place, bytes);
  bytes_ += bytes;
  RemoveOldest();
  return absl::OkStatus();
}

// With the lock.
void FetchedLogs::RemoveOldest() {
  while (kept_.size() > 1 &&
         (bytes_ > limits::kFetchedLogsBytesMax || kept_.size() > limits::kFetchedLogsMax)) {
    RemoveTree(kept_.front().first).IgnoreError();  // Or a later head does.
    bytes_ -= kept_.front().second;
    kept_.pop_front();
  }
}

std::optional<FetchedLog> FetchedLogs::Find(const Fence& fence, const std::string& stream) const {
  const std::string place = PlaceOf(fence);
  if (!Exists(place)) return std::nullopt;
  FetchedLog log;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(place, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(stream + ".")) continue;
    const char* digits = name.c_str() + stream.size() + 1;
    std::from_chars(digits, name.c_str() + name.size(), log.offset);
    absl::StatusOr<std::string> bytes = ReadFile(entry.path());
    if (bytes.ok()) log.bytes = *std::move(bytes);
  }
  return log;
}

}  // namespace rt
