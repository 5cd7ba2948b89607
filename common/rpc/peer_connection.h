// A connection that the port listener has handed to the server, as both of them see it: the
// server's threads count what happens on it, the listener's thread reads that and TCP's own
// counters. It owns a duplicate of the descriptor, which tells the end of the connection and can
// end it. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "common/base/time.h"

namespace rt {

class PeerConnection : public std::enable_shared_from_this<PeerConnection> {
 public:
  PeerConnection(std::string name, int fd) : peer(std::move(name)), fd_(fd) {}
  ~PeerConnection() { Close(); }
  PeerConnection(const PeerConnection&) = delete;
  PeerConnection& operator=(const PeerConnection&) = delete;

  void ShutDown();   // Ends the connection for the server as well.
  void LiftBound();  // The kernel decides how much it receives ahead of the server.
  void Close();      // Only the duplicate. Called by the listener.
  int fd() const { return fd_; }  // For the listener's thread, which alone closes it.

  const std::string peer;              // As grpc::ServerContext::peer() names it.
  std::atomic<bool> admitted = false;  // It has shown who it is.
  std::atomic<bool> is_trusted = false;  // A call was answered, or is an upload.
  std::atomic<uint32_t> calls = 0;     // Calls that are running.
  std::atomic<uint32_t> uploads = 0;   // Running calls that wait for messages of the client.
  std::atomic<uint64_t> progress = 0;  // Calls begun and ended, messages either way.
  std::shared_ptr<void> session;       // Owned for the call watch; guarded by session_mutex.
  std::mutex session_mutex;

 private:
  std::mutex mutex_;
  int fd_;
};

}  // namespace rt
