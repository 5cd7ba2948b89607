// One message with descriptors on a Unix socket. No Abseil here: part of rt-shim.
#pragma once

#include <sys/socket.h>

#include <cstring>
#include <string>
#include <vector>

namespace rt::worker {

constexpr size_t kSentDescriptorsMax = 4;

// At most kSentDescriptorsMax descriptors. False, with errno, when it was not sent whole.
inline bool SendWith(int fd, const std::string& text, const std::vector<int>& fds, int flags = 0) {
  iovec data{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kSentDescriptorsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  return ::sendmsg(fd, &message, MSG_NOSIGNAL | flags) >= 0;
}

}  // namespace rt::worker
