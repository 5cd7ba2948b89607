#include "common/rpc/peer_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include "common/rpc/tcp_socket.h"

namespace rt {
namespace {

constexpr size_t kDiscardBytes = 1 << 20;

}  // namespace

void PeerConnection::ShutDown() {
  std::lock_guard lock(mutex_);
  if (fd_ < 0) return;
  ::shutdown(fd_, SHUT_RDWR);
  // The server would still read, and work on, the megabytes that the kernel may already hold.
  while (::recv(fd_, nullptr, kDiscardBytes, MSG_TRUNC | MSG_DONTWAIT) > 0) {
  }
}

void PeerConnection::LiftBound() {
  std::lock_guard lock(mutex_);
  if (fd_ >= 0) BoundBuffer(fd_, 0);
}

void PeerConnection::Close() {
  std::lock_guard lock(mutex_);
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace rt
