// The log of this daemon itself: the file that standard error goes to, if it is one. Read by
// offset; used by one thread.
#pragma once

#include <cstdint>
#include <string>

#include "common/run/owned_fd.h"

namespace rt::worker {

class OwnLog {
 public:
  OwnLog();

  bool is_file() const { return file_.get() >= 0; }
  std::string Read(uint64_t offset, size_t bytes_max) const;
  // Where the last `lines` lines begin, looking back at most 1 MiB.
  uint64_t OffsetOfTail(int64_t lines) const;

 private:
  OwnedFd file_;
};

}  // namespace rt::worker
