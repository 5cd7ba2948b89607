#include "common/run/unix_address.h"

#include <sys/socket.h>

#include <cstring>

#include "common/base/status.h"

namespace rt {

absl::StatusOr<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Invalid("socket path is too long: " + path);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace rt
