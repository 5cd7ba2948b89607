#include "worker/loop/restart.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt::worker {
namespace {

constexpr char kVariable[] = "RT_WORKER_HUNG";

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The children of the replaced daemon end when its descriptors are closed. Nobody else waits for
// them, and this daemon has no children yet.
void ReapEarlierChildren() {
  const std::string own = std::to_string(::getpid());
  auto listed = ReadFile("/proc/self/task/" + own + "/children");
  if (!listed.ok()) return;
  for (const std::string& word : Split(*listed, ' ')) {
    const auto pid = static_cast<pid_t>(std::strtol(word.c_str(), nullptr, 10));
    if (pid > 0) std::thread([pid] { ::waitpid(pid, nullptr, 0); }).detach();
  }
}

}  // namespace

Restart::Restart(int argc, char** argv, std::vector<std::string> more)
    : arguments_(argv, argv + argc), environment_(std::move(more)) {
  std::error_code error;
  program_ = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (const char* text = std::getenv(kVariable)) {
    hung_ = ParseHungActivity(text);
    ReapEarlierChildren();
  }
  ::unsetenv(kVariable);
  for (char** entry = environ; *entry != nullptr; ++entry) environment_.emplace_back(*entry);
}

void Restart::Now(const HungActivity& hung) const {
  RT_LOG(kError) << "the loop has not moved for " << hung.span << " ms ("
                 << rt::worker::ToString(hung)
                 << "): the daemon restarts, and what runs keeps running";
  std::vector<std::string> environment = environment_;
  environment.push_back(std::string(kVariable) + "=" + rt::worker::ToString(hung));
  // The new daemon takes the same locks and ports.
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  ::execve(program_.c_str(), Pointers(arguments_).data(), Pointers(environment).data());
  RT_LOG(kError) << program_ << ": " << std::strerror(errno);
  ::_exit(1);  // Whoever looks after the process starts another.
}

}  // namespace rt::worker
