// Ports at which the ranks of an attempt will meet (MASTER_PORT). A kept port is bound, never
// listened on, and shared with whoever sets SO_REUSEADDR, as torch does: the program can listen
// there, and nobody else is given it by chance. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "absl/status/statusor.h"
#include "common/base/ids.h"

namespace rt::worker {

class PortKeeper {
 public:
  PortKeeper() = default;
  ~PortKeeper();
  PortKeeper(const PortKeeper&) = delete;
  PortKeeper& operator=(const PortKeeper&) = delete;

  // Keeps `port`, or a free one when it is 0, until Release. Unavailable while another has it.
  absl::StatusOr<uint32_t> Keep(const Fence& fence, uint32_t port);
  void Release(const Fence& fence);

 private:
  struct Kept {
    int fd = -1;
    uint32_t port = 0;
  };
  std::mutex mutex_;
  std::map<Fence, Kept> kept_;
};

}  // namespace rt::worker
