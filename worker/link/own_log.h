// The log of this daemon itself: the file that standard error goes to, if it is one. Read by
// offset; used by one thread.
#pragma once

#include <cstdint>
#include <string>

namespace rt::worker {

class OwnLog {
 public:
  OwnLog();
  ~OwnLog();
  OwnLog(const OwnLog&) = delete;
  OwnLog& operator=(const OwnLog&) = delete;

  bool is_file() const { return fd_ >= 0; }
  std::string Read(uint64_t offset, size_t bytes_max) const;
  // Where the last `lines` lines begin, looking back at most 1 MiB.
  uint64_t OffsetOfTail(int64_t lines) const;

 private:
  int fd_ = -1;
};

}  // namespace rt::worker
