// The smallest client of the trial socket (docs/trial-protocol.md) that a benchmark needs:
// blocking, lines in and out. Any trouble ends the program with a message, which fails its trial.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace rt::bench {

[[noreturn]] inline void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

inline const char* Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) Fail(std::string(name) + " is not set: this is a trial of rt");
  return value;
}

class TrialClient {
 public:
  TrialClient() : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", Variable("RT_SOCKET"));
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      Fail(std::string("connect: ") + std::strerror(errno));
    Send("{\"op\":\"hello\",\"token\":\"" + std::string(Variable("RT_TOKEN")) + "\"}\n");
    if (Receive().find("\"ok\":true") == std::string::npos) Fail("hello was refused");
  }
  void Send(const std::string& lines) {
    for (size_t at = 0; at < lines.size();) {
      ssize_t sent = ::send(fd_, lines.data() + at, lines.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) Fail("the socket broke");
      at += static_cast<size_t>(sent);
    }
  }
  // The next line.
  std::string Receive() {
    size_t end = 0;
    while ((end = in_.find('\n')) == std::string::npos) {
      char buffer[65536];
      ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
      if (count <= 0) Fail("the socket closed");
      in_.append(buffer, static_cast<size_t>(count));
    }
    std::string line = in_.substr(0, end);
    in_.erase(0, end + 1);
    return line;
  }

 private:
  int fd_;
  std::string in_;
};

}  // namespace rt::bench
