#include "worker/session/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "worker/shim/shim_log.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

// Start -> size of every segment.
std::map<uint64_t, uint64_t> Segments(const std::string& directory, const std::string& stream) {
  std::map<uint64_t, uint64_t> segments;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stream + ".")) continue;
    segments[std::strtoull(name.c_str() + stream.size() + 1, nullptr, 10)] = entry.file_size(error);
  }
  return segments;
}

}  // namespace

bool LogReader::Open() {
  if (file_.get() >= 0) return true;
  auto segments = Segments(directory_, stream_);
  if (segments.empty()) return false;
  auto after = segments.upper_bound(offset_);
  start_ = after == segments.begin() ? after->first : std::prev(after)->first;
  if (offset_ < start_) offset_ = start_;
  file_.Reset(::open((directory_ + "/" + SegmentName(stream_.c_str(), start_)).c_str(),
                     O_RDONLY | O_CLOEXEC));
  return file_.get() >= 0;
}

// At the end of a segment: whether there is a later one, to whose first byte it goes. What came
// between may have been dropped, after the first segment or because this reader is slow.
bool LogReader::GoToNextSegment() {
  const std::string next = directory_ + "/" + SegmentName(stream_.c_str(), offset_);
  const bool follows = offset_ != start_ && ::access(next.c_str(), F_OK) == 0;
  struct stat now {};
  const bool dropped = ::fstat(file_.get(), &now) == 0 && now.st_nlink == 0;
  if (!follows && !dropped && start_ != 0) return false;
  if (!follows) {
    auto segments = Segments(directory_, stream_);
    auto after = segments.upper_bound(start_);
    if (after == segments.end()) return false;
    // It was complete before the later one began: what this reader has not seen comes first.
    const bool more =
        ::fstat(file_.get(), &now) == 0 && offset_ - start_ < static_cast<uint64_t>(now.st_size);
    if (more) return true;
    offset_ = std::max(offset_, after->first);
  }
  file_.Reset();
  return true;
}

std::string LogReader::Read(size_t bytes_max) {
  while (Open()) {
    std::string bytes(bytes_max, '\0');
    ssize_t count =
        ::pread(file_.get(), bytes.data(), bytes_max, static_cast<off_t>(offset_ - start_));
    if (count > 0) {
      bytes.resize(static_cast<size_t>(count));
      offset_ += static_cast<uint64_t>(count);
      return bytes;
    }
    if (!GoToNextSegment()) return "";
  }
  return "";
}

void LogReader::Seek(uint64_t offset) {
  file_.Reset();
  offset_ = offset;
}

uint64_t LogReader::End() const {
  auto segments = Segments(directory_, stream_);
  return segments.empty() ? 0 : segments.rbegin()->first + segments.rbegin()->second;
}

void LogReader::SeekToLast(uint64_t bytes) {
  const uint64_t end = End();
  Seek(end > bytes ? end - bytes : 0);
}

void LogReader::SeekToTail(int64_t lines) {
  constexpr uint64_t kWindow = 4u << 20;
  const uint64_t end = End();
  Seek(end > kWindow ? end - kWindow : 0);
  std::string text;
  for (std::string part; !(part = Read(1u << 20)).empty();) text += part;
  const uint64_t text_end = offset_;
  size_t at = text.size();
  if (at > 0 && text[at - 1] == '\n') --at;
  for (int64_t left = lines; at > 0; --at) {
    if (text[at - 1] == '\n' && --left == 0) break;
  }
  Seek(text_end - (text.size() - at));
}

}  // namespace rt::worker
