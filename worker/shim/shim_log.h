// The shim's log files of one stream: segments named by the offset of their first byte,
//   stdout.000000000000.log, stdout.000033554432.log, …
// of at most `bytes_max` (plus one write) each; of more than `kept` the first stays (how it began,
// and a path that can be told in advance) and of the others the newest. None before the first
// byte. Never renamed, so a reader that knows an offset knows the file. No Abseil here: part of
// rt-shim.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <deque>
#include <string>

namespace rt::worker {

inline std::string SegmentName(const char* stream, unsigned long long start) {
  char name[64];
  std::snprintf(name, sizeof name, "%s.%012llu.log", stream, start);
  return name;
}

class SegmentedLog {
 public:
  SegmentedLog(std::string directory, const char* stream, unsigned long long bytes_max, size_t kept)
      : directory_(std::move(directory)), stream_(stream), bytes_max_(bytes_max), kept_(kept) {}
  ~SegmentedLog() {
    if (fd_ >= 0) ::close(fd_);
  }
  SegmentedLog(const SegmentedLog&) = delete;
  SegmentedLog& operator=(const SegmentedLog&) = delete;

  // A disk that is full loses log bytes, never blocks the trial.
  void Write(const char* data, size_t size) {
    if (fd_ < 0 || end_ - start_ >= bytes_max_) Rotate();
    while (size > 0) {
      ssize_t written = ::write(fd_, data, size);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      data += written;
      size -= static_cast<size_t>(written);
      end_ += static_cast<unsigned long long>(written);
    }
  }

 private:
  void Rotate() {
    if (fd_ >= 0) ::close(fd_);
    start_ = end_;
    std::string path = directory_ + "/" + SegmentName(stream_, start_);
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    segments_.push_back(path);
    while (segments_.size() > kept_) {
      auto oldest = kept_ > 1 ? segments_.begin() + 1 : segments_.begin();
      ::unlink(oldest->c_str());
      segments_.erase(oldest);
    }
  }

  std::string directory_;
  const char* stream_;
  unsigned long long bytes_max_;
  size_t kept_;
  int fd_ = -1;
  unsigned long long start_ = 0;
  unsigned long long end_ = 0;
  std::deque<std::string> segments_;
};

}  // namespace rt::worker
