// Stands between a client and the PostgreSQL of a test, and cuts the line on demand: before a
// COMMIT reaches the server, or after the server carried it out and before the client hears of it.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/temp_dir.h"

namespace rt {

class PostgresProxy {
 public:
  enum class Cut { kNever, kBeforeCommit, kAfterCommit };

  explicit PostgresProxy(std::string server) : server_(std::move(server)) {
    listener_ = Socket();
    sockaddr_un address = Address(folder.File(".s.PGSQL.5432"));
    REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(listener_, 16) == 0);
    accepting_ = std::thread([this] { Accept(); });
  }
  ~PostgresProxy() {
    stopping_ = true;
    shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    for (std::thread& line : lines_) line.join();
    close(listener_);
  }

  TempDir folder{"pgp"};  // Of the socket that clients connect to.
  std::atomic<Cut> next_cut = Cut::kNever;  // Once.
  std::atomic<int> cuts = 0;
  std::atomic<bool> refuse = false;  // Lets nobody through, and ends all lines.

 private:
  static int Socket() {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(fd >= 0);
    return fd;
  }
  static sockaddr_un Address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    return address;
  }
  void Accept() {
    while (!stopping_) {
      int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client >= 0) lines_.emplace_back([this, client] { Serve(client); });
    }
  }
  void Serve(int client) {
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = Address(server_);
    if (!refuse && connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
      while (Forward(client, server)) continue;
    close(server);
    close(client);
  }
  // False: the line is to end.
  bool Forward(int client, int server) {
    pollfd fds[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    poll(fds, 2, 20);
    if (stopping_ || refuse) return false;
    if (fds[1].revents != 0 && !Copy(server, client)) return false;
    return fds[0].revents == 0 || Copy(client, server);
  }
  bool Copy(int from, int to) {
    char bytes[65536];
    const ssize_t size = recv(from, bytes, sizeof bytes, 0);
    if (size <= 0) return false;
    constexpr std::string_view kCommit("Q\0\0\0\013COMMIT\0", 12);
    const bool is_commit = std::string_view(bytes, static_cast<size_t>(size)) == kCommit;
    const Cut cut = is_commit ? next_cut.exchange(Cut::kNever) : Cut::kNever;
    if (cut != Cut::kNever) ++cuts;
    if (cut == Cut::kBeforeCommit) return false;
    if (send(to, bytes, static_cast<size_t>(size), MSG_NOSIGNAL) != size) return false;
    if (cut == Cut::kNever) return true;
    pollfd answered{to, POLLIN, 0};  // The server has done it; the client never hears of it.
    poll(&answered, 1, 10'000);
    return false;
  }

  const std::string server_;
  int listener_ = -1;
  std::atomic<bool> stopping_ = false;
  std::thread accepting_;
  std::vector<std::thread> lines_;  // The accepting thread's, until it ends.
};

}  // namespace rt
