#include "worker/launch/incarnation.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "common/base/status.h"
#include "common/run/clock.h"
#include "common/run/files.h"

namespace rt::worker {

absl::StatusOr<uint64_t> NextIncarnation(const std::string& state_dir, uint64_t above) {
  const std::string path = state_dir + "/incarnation";
  uint64_t last = 0;
  absl::StatusOr<std::string> text = ReadFile(path);
  if (text.ok()) {
    last = std::strtoull(text->c_str(), nullptr, 10);
  } else if (!absl::IsNotFound(text.status())) {
    return text.status();
  }
  const uint64_t next = std::max({last + 1, above + 1, static_cast<uint64_t>(WallClock())});
  RT_RETURN_IF_ERROR(WriteFileAtomic(path, std::to_string(next) + "\n"));
  return next;
}

}  // namespace rt::worker
