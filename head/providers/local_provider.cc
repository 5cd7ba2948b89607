#include "head/providers/local_provider.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/files.h"
#include "head/providers/worker_process.h"

namespace rt {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A worker that lived shorter than this did not get anywhere; so many of those in a row, and the
// next start waits: 100 ms, doubled each time, at most 10 s.
constexpr auto kShortLife = milliseconds(2'000);
constexpr int kShortLivesAtOnce = 5;
constexpr milliseconds kBackOffFirst{100};
constexpr milliseconds kBackOffMax{10'000};
constexpr auto kTerminateMax = milliseconds(10'000);
constexpr auto kPollMax = milliseconds(1'000);

// The worker keeps its certificate somewhere in its directory.
bool HasCertificate(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().filename() == "cert.pem") return true;
    if (Exists(entry.path().string() + "/cert.pem")) return true;
  }
  return false;
}

struct Kept {
  LocalWorker worker;
  std::string directory;
  WorkerProcess process;
  bool up = false;
  Clock::time_point started;
  Clock::time_point start_at;  // Not before.
  int short_lives = 0;
};

class LocalProviderImpl final : public LocalProvider {
 public:
  explicit LocalProviderImpl(Options options) : options_(std::move(options)) {
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    RT_CHECK(wake_ >= 0);
    for (const LocalWorker& worker : options_.workers) {
      Kept& kept = kept_.emplace_back();
      kept.worker = worker;
      kept.directory = options_.cluster_dir + "/" + worker.name;
    }
    thread_ = std::thread([this] { Run(); });
  }
  ~LocalProviderImpl() override {
    StopThread();
    close(wake_);
  }

  void Terminate() override {
    StopThread();
    for (Kept& kept : kept_) kept.process.Kill(SIGTERM);
    auto until = Clock::now() + kTerminateMax;
    for (Kept& kept : kept_) {
      if (!kept.up) continue;
      pollfd ended{kept.process.pid_fd(), POLLIN, 0};
      auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count();
      if (poll(&ended, 1, static_cast<int>(std::max<int64_t>(left, 0))) == 0) {
        RT_LOG(kWarning) << kept.worker.name << " does not end; killing it";
        kept.process.Kill(SIGKILL);
        poll(&ended, 1, static_cast<int>(kPollMax.count()));
      }
      kept.process.Reap();
      kept.up = false;
      unlink((kept.directory + "/pid").c_str());
      unlink((kept.directory + "/pid.start").c_str());
    }
  }

 private:
  void StopThread() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    uint64_t one = 1;
    RT_CHECK(write(wake_, &one, sizeof one) == sizeof one);
    if (thread_.joinable()) thread_.join();
  }
  bool stopping() {
    std::lock_guard lock(mutex_);
    return stopping_;
  }

  void Run() {
    for (Kept& kept : kept_) Adopt(kept);
    while (!stopping()) {
      for (Kept& kept : kept_) {
        if (!kept.up && Clock::now() >= kept.start_at && !stopping()) StartWorker(kept);
      }
      WaitForChange();
      for (Kept& kept : kept_) {
        if (kept.up && !kept.process.running()) OnExit(kept);
      }
    }
  }

  void Adopt(Kept& kept) {
    absl::StatusOr<WorkerProcess> process = WorkerProcess::Adopt(kept.directory);
    if (!process.ok()) return;
    kept.process = std::move(*process);
    kept.up = true;
    kept.started = Clock::now();
    RT_LOG(kInfo) << kept.worker.name << " still runs as process " << kept.process.pid();
  }

  void StartWorker(Kept& kept) {
    absl::Status started = TryStart(kept);
    if (started.ok()) {
      RT_LOG(kInfo) << kept.worker.name << " started as process " << kept.process.pid();
      return;
    }
    RT_LOG(kError) << "cannot start " << kept.worker.name << ": " << MessageOf(started);
    kept.short_lives = std::max(kept.short_lives + 1, kShortLivesAtOnce + 3);
    BackOff(kept);
  }

  absl::Status TryStart(Kept& kept) {
    RT_RETURN_IF_ERROR(EnsureDirectory(kept.directory));
    std::string token_file = kept.directory + "/token";
    if (!HasCertificate(kept.directory)) {
      RT_ASSIGN_OR_RETURN(std::string token, options_.make_token());
      RT_RETURN_IF_ERROR(WriteFileAtomic(token_file, token + "\n", {.sync = false}));
    }
    std::vector<std::string> argv = {options_.program, "--head", options_.head_address,
                                     "--token-file", token_file, "--state-dir", kept.directory,
                                     "--name", kept.worker.name};
    if (!kept.worker.resources.empty()) {
      argv.push_back("--resources");
      argv.push_back(kept.worker.resources);
    }
    if (kept_.size() > 1) {  // They are on one machine: each gets its part of the gpus.
      argv.push_back("--gpu-share");
      argv.push_back(std::to_string(&kept - kept_.data() + 1) + "/" +
                     std::to_string(kept_.size()));
    }
    if (!kept.worker.labels.empty()) {
      argv.push_back("--labels");
      argv.push_back(kept.worker.labels);
    }
    RT_ASSIGN_OR_RETURN(kept.process, WorkerProcess::Spawn(kept.directory, argv));
    kept.up = true;
    kept.started = Clock::now();
    return absl::OkStatus();
  }

  void OnExit(Kept& kept) {
    RT_LOG(kWarning) << kept.worker.name << " (process " << kept.process.pid() << ") ended";
    kept.process.Reap();
    kept.up = false;
    kept.short_lives = Clock::now() - kept.started < kShortLife ? kept.short_lives + 1 : 0;
    BackOff(kept);
  }

  void BackOff(Kept& kept) {
    int steps = std::min(kept.short_lives - kShortLivesAtOnce, 10);
    kept.start_at = Clock::now();
    if (steps > 0) kept.start_at += std::min(kBackOffFirst * (1 << steps), kBackOffMax);
  }

  void WaitForChange() {
    std::vector<pollfd> fds = {{wake_, POLLIN, 0}};
    auto until = Clock::now() + kPollMax;
    for (const Kept& kept : kept_) {
      if (kept.up) fds.push_back({kept.process.pid_fd(), POLLIN, 0});
      else until = std::min(until, kept.start_at);
    }
    auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    poll(fds.data(), fds.size(), static_cast<int>(std::max<int64_t>(left, 0)));
  }

  const Options options_;
  std::vector<Kept> kept_;  // The thread's, until it has been joined.
  int wake_ = -1;
  std::mutex mutex_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<LocalProvider> LocalProvider::Start(Options options) {
  return std::make_unique<LocalProviderImpl>(std::move(options));
}

}  // namespace rt
