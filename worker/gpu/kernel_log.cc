#include "worker/gpu/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace rt::worker {
namespace {

constexpr size_t kRecordBytes = 8'192;  // The kernel's records are shorter.
constexpr int kRecordsMost = 10'000;    // In one call: a log that fills faster is read on later.

}  // namespace

KernelLog::KernelLog(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (file_.get() >= 0) ::lseek(file_.get(), 0, SEEK_END);
}

std::vector<KernelXid> KernelLog::Read() {
  std::vector<KernelXid> found;
  char record[kRecordBytes];
  for (int i = 0; is_open() && i < kRecordsMost; ++i) {
    const ssize_t bytes = ::read(file_.get(), record, sizeof record);
    if (bytes < 0 && errno == EPIPE) continue;  // Records were overwritten before they were read.
    if (bytes <= 0) break;
    rest_.append(record, static_cast<size_t>(bytes));
    size_t start = 0;
    for (size_t end = 0; (end = rest_.find('\n', start)) != std::string::npos; start = end + 1)
      if (auto told = ParseKernelLine(std::string_view(rest_).substr(start, end - start)))
        found.push_back(*told);
    rest_.erase(0, start);
    if (rest_.size() > kRecordBytes) rest_.clear();
  }
  return found;
}

}  // namespace rt::worker
