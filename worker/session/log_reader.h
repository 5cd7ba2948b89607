// Reads one stream of an attempt's logs by offset, over the segments that rt-shim writes
// (worker/shim/shim_log.h). Owned by one thread.
#pragma once

#include <cstdint>
#include <string>

#include "common/run/owned_fd.h"

namespace rt::worker {

class LogReader {
 public:
  LogReader(std::string directory, std::string stream)
      : directory_(std::move(directory)), stream_(std::move(stream)) {}

  // The next bytes, at most `bytes_max`; empty at the end, for now. What was rotated away is
  // skipped.
  std::string Read(size_t bytes_max);
  void Seek(uint64_t offset);
  // To the start of the last `lines` lines, looking back at most 4 MiB.
  void SeekToTail(int64_t lines);
  // So far before the end.
  void SeekToLast(uint64_t bytes);
  uint64_t offset() const { return offset_; }

 private:
  bool Open();
  bool GoToNextSegment();
  uint64_t End() const;

  std::string directory_;
  const std::string stream_;
  OwnedFd file_;
  uint64_t start_ = 0;
  uint64_t offset_ = 0;
};

}  // namespace rt::worker
