#include "worker/link/node_number.h"

#include <charconv>

#include "common/base/status.h"

namespace rt::worker {

absl::StatusOr<uint64_t> NodeNumber(const std::string& name, const std::string& state_dir) {
  uint64_t node = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, node);
  if (error == std::errc() && rest == end && node != 0) return node;
  const std::string what = "the certificate in " + state_dir + "/credentials is of '" + name +
                           "', which is not a node's number";
  return WithHint(absl::FailedPreconditionError(ToAbsl(what)),
                  "move that directory away, and start the worker with a new join token");
}

}  // namespace rt::worker
