#include "worker/launch/shim_forker.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/status.h"
#include "worker/shim/fork_shims.h"
#include "worker/shim/send_with.h"

namespace rt::worker {
namespace {

constexpr Millis kEndWait = 1'000;
constexpr size_t kReservedBytes = 128;  // In its arguments, for the longer ones of a shim.

}  // namespace

ShimForker::~ShimForker() { Close(); }

void ShimForker::Stop() {
  std::lock_guard lock(mutex_);
  Close();
}

void ShimForker::Close() {
  if (control_ >= 0) ::close(control_);
  control_ = -1;
  if (process_) process_->Wait(kEndWait);
  process_.reset();
}

absl::Status ShimForker::Open() {
  RT_ASSIGN_OR_RETURN(const int lock, lock_.Hold());
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "socketpair");
  }
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  auto process = Subprocess::Spawn(
      {.argv = {bin_dir_ + "/rt-shim", "--nursery", state_dir_, std::string(kReservedBytes, '.')},
       .cwd = state_dir_,
       .fds = {{null, 0}, {null, 1}, {null, 2}, {ends[1], 3}, {lock, kLaunchLock}},
       .setsid = true});
  ::close(null);
  ::close(ends[1]);
  if (!process.ok()) {
    ::close(ends[0]);
    return process.status();
  }
  process_.emplace(std::move(*process));
  control_ = ends[0];
  return absl::OkStatus();
}

absl::Status ShimForker::Start(const std::string& run_dir, int input, int output) {
  std::lock_guard lock(mutex_);
  absl::Status status;
  for (int attempt = 0; attempt < 2; ++attempt) {  // The second one after it was killed.
    if (control_ < 0) RT_RETURN_IF_ERROR(Open());
    if (SendWith(control_, run_dir, {input, output})) return absl::OkStatus();
    status = ErrnoStatus(errno, "ask rt-shim");
    Close();
  }
  return status;
}

}  // namespace rt::worker
