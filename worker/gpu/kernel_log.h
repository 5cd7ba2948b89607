// What the kernel's log says of gpus from now on: /dev/kmsg, where this daemon may read it. For
// drivers that tell no events, and for what the driver only logs. One thread at a time.
#pragma once

#include <string>
#include <vector>

#include "common/run/owned_fd.h"
#include "worker/gpu/xid.h"

namespace rt::worker {

class KernelLog {
 public:
  explicit KernelLog(const std::string& path);
  bool is_open() const { return file_.get() >= 0; }
  // What was added since the last call. Never blocks.
  std::vector<KernelXid> Read();

 private:
  OwnedFd file_;
  std::string rest_;  // Of a regular file: the last line, which may continue.
};

}  // namespace rt::worker
