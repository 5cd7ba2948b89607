// The bytes of one connection between a driver and an executor, carried between a Unix socket and a
// stream of TaskBytes (docs/adr/0041): by the daemons at both ends, and by `rt bridge` for a driver
// outside of the cluster. Every function blocks.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "rt/v1/task.grpc.pb.h"

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

// The streams that a program has opened as their client: a thread for each, and a second one while
// it carries bytes. Thread-safe.
class TaskStreams {
 public:
  class Stream {
   public:
    grpc::ClientContext context;
    // Set by the stream's thread.
    std::unique_ptr<grpc::ClientReaderWriter<v1::TaskBytes, v1::TaskBytes>> bytes;

   private:
    friend class TaskStreams;
    int fd_ = -1;  // Of the program's connection while bytes are carried.
  };
  using Work = std::function<void(Stream&)>;

  explicit TaskStreams(size_t open_max) : open_max_(open_max) {}
  ~TaskStreams() { Finish(); }

  // Runs `work` in a thread. Cancelled after Finish; ResourceExhausted: `open_max` are open.
  absl::Status Start(Work work);
  // Within `work`: carries bytes between the connection and `stream.bytes` until either ends or
  // Finish, and ends the stream. -1: there is no connection, and the stream is cancelled.
  void Carry(Stream& stream, int fd);
  // Ends the open streams and waits for their threads.
  void Finish();
  bool is_finishing();

 private:
  // False after Finish, which would not find the connection.
  bool Take(Stream& stream, int fd);
  void End(Stream* stream);

  const size_t open_max_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::set<Stream*> streams_;
  bool finishing_ = false;
};

}  // namespace rt
