#include "common/rpc/task_stream.h"

#include <poll.h>
#include <unistd.h>

#include <thread>

#include "common/base/status.h"
#include "common/run/unix_address.h"

namespace rt {

absl::StatusOr<int> ListenOnce(const std::string& path) {
  RT_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus(errno, "socket");
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(fd, 1) == 0)
    return fd;
  const absl::Status failed = ErrnoStatus(errno, "listen at " + path);
  ::close(fd);
  return failed;
}

int AcceptOnce(int listener, const std::function<bool()>& is_over) {
  for (Millis waited = 0; waited < kTaskAcceptMax && !is_over(); waited += kTaskLookMs) {
    pollfd wait{listener, POLLIN, 0};
    if (::poll(&wait, 1, kTaskLookMs) <= 0) continue;
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) return fd;
  }
  return -1;
}

bool SendAll(int fd, std::string_view bytes, const std::function<bool()>& is_over) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent == 0 || (errno != EAGAIN && errno != EWOULDBLOCK) || is_over()) return false;
    pollfd room{fd, POLLOUT, 0};
    ::poll(&room, 1, kTaskLookMs);
  }
  return true;
}

absl::Status TaskStreams::Start(Work work) {
  auto stream = std::make_unique<Stream>();
  {
    std::lock_guard lock(mutex_);
    if (finishing_) return absl::CancelledError("the program ends");
    if (streams_.size() >= open_max_)
      return absl::ResourceExhaustedError(std::to_string(open_max_) +
                                          " streams to executors elsewhere are open");
    streams_.insert(stream.get());
  }
  std::thread([this, work = std::move(work), running = stream.release()]() mutable {
    work(*running);
    work = nullptr;  // What it holds goes before the owner of this object may.
    End(running);
  }).detach();
  return absl::OkStatus();
}

void TaskStreams::Carry(Stream& stream, int fd) {
  if (fd >= 0 && Take(stream, fd)) {
    std::thread out([&] { PumpOut(fd, *stream.bytes); });
    if (!PumpIn(fd, *stream.bytes, [this] { return is_finishing(); })) stream.context.TryCancel();
    out.join();
  } else {
    stream.context.TryCancel();
  }
  Take(stream, -1);
  stream.bytes->WritesDone();
  stream.bytes->Finish();
}

void TaskStreams::Finish() {
  std::unique_lock lock(mutex_);
  finishing_ = true;
  for (Stream* stream : streams_) {
    stream->context.TryCancel();
    if (stream->fd_ >= 0) ::shutdown(stream->fd_, SHUT_RDWR);
  }
  ended_.wait(lock, [this] { return streams_.empty(); });
}

bool TaskStreams::is_finishing() {
  std::lock_guard lock(mutex_);
  return finishing_;
}

bool TaskStreams::Take(Stream& stream, int fd) {
  std::lock_guard lock(mutex_);
  stream.fd_ = fd;
  return !finishing_;
}

void TaskStreams::End(Stream* stream) {
  std::lock_guard lock(mutex_);
  streams_.erase(stream);
  delete stream;
  ended_.notify_all();
}

}  // namespace rt
