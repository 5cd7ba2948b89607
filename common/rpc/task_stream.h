// The bytes of one connection between a driver and an executor, carried between a Unix socket and a
// stream of TaskBytes (docs/adr/0041): by the daemons at both ends, and by `rt bridge` for a driver
// outside of the cluster. Every function blocks.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "rt/v1/task.pb.h"

namespace rt {

inline constexpr size_t kTaskPieceBytes = 256u << 10;  // As task.proto says.
// A driver connects to the socket that it was told at once.
inline constexpr Millis kTaskAcceptMax = 10'000;
inline constexpr int kTaskLookMs = 200;  // How late an end is noticed.

// A Unix socket at `path` for one connection.
absl::StatusOr<int> ListenOnce(const std::string& path);
// The next connection; -1: none came within kTaskAcceptMax, or `is_over`.
int AcceptOnce(int listener, const std::function<bool()>& is_over);
// Returns whether all bytes were sent. Waits while the other side does not read, until `is_over`.
bool SendAll(int fd, std::string_view bytes, const std::function<bool()>& is_over);

// From the socket to the stream, to the socket's end, which becomes an empty message.
template <class Stream>
void PumpOut(int fd, Stream& stream) {
  v1::TaskBytes piece;
  std::string& data = *piece.mutable_data();
  while (true) {
    data.resize(kTaskPieceBytes);
    const ssize_t count = ::recv(fd, data.data(), data.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    data.resize(count > 0 ? static_cast<size_t>(count) : 0);
    if (!stream.Write(piece) || count <= 0) return;
  }
}

// From the stream to the socket, to an empty message. False: a side is gone, and the socket is shut
// down, which ends the other direction as well.
template <class Stream>
bool PumpIn(int fd, Stream& stream, const std::function<bool()>& is_over) {
  v1::TaskBytes piece;
  while (stream.Read(&piece)) {
    if (piece.data().empty()) {
      ::shutdown(fd, SHUT_WR);
      return true;
    }
    if (!SendAll(fd, piece.data(), is_over)) break;
  }
  ::shutdown(fd, SHUT_RDWR);
  return false;
}

}  // namespace rt
