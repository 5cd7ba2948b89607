#include "worker/shim/fork_shims.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rt::worker {
namespace {

constexpr int kControl = 3;
constexpr size_t kPathBytesMax = 8 << 10;

void Become(const int (&fds)[2], const std::string& directory) {
  ::signal(SIGCHLD, SIG_DFL);
  ::dup2(fds[0], STDIN_FILENO);
  ::dup2(fds[1], STDOUT_FILENO);
  if (::chdir(directory.c_str()) != 0) ::_exit(1);  // Everything else closes with ShimMain.
}

// The arguments lie one behind the other, each with its NUL.
void Rename(int argc, char** argv, const std::string& directory) {
  char* const start = argv[1];
  const size_t size = static_cast<size_t>(argv[argc - 1] + std::strlen(argv[argc - 1]) - start);
  std::memset(start, 0, size);
  std::memcpy(start, directory.data(), std::min(directory.size(), size));
}

}  // namespace

std::string ForkShims(int argc, char** argv) {
  ::setsid();
  ::signal(SIGCHLD, SIG_IGN);  // The kernel reaps the shims.
  for (;;) {
    char bytes[kPathBytesMax];
    iovec data{bytes, sizeof bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t count = ::recvmsg(kControl, &message, MSG_CMSG_CLOEXEC);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return "";
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    int fds[2];
    if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof fds)) continue;
    std::memcpy(fds, CMSG_DATA(header), sizeof fds);
    const std::string directory(bytes, static_cast<size_t>(count));
    const pid_t child = ::fork();
    if (child == 0) {
      Become(fds, directory);
      Rename(argc, argv, directory);
      return directory;
    }
    for (int fd : fds) ::close(fd);  // After a failed fork the daemon reads an end.
  }
}

}  // namespace rt::worker
