#include "common/provider/local_provider.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/provider/strays.h"
#include "common/provider/worker_process.h"
#include "common/run/files.h"
#include "common/run/runtime_dir.h"

namespace rt {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A worker that lived shorter than this did not get anywhere. After this many of those in a row the
// next start waits: 100 ms, doubled each time, at most 10 s.
constexpr auto kShortLife = milliseconds(2'000);
constexpr int kShortLivesAtOnce = 5;
constexpr milliseconds kBackOffFirst{100};
constexpr milliseconds kBackOffMax{10'000};
constexpr milliseconds kAtOnce{1'000};
constexpr auto kTerminateMax = milliseconds(10'000);
constexpr auto kPollMax = milliseconds(1'000);
constexpr Bytes kMachineFileMax = 1 << 16;
constexpr char kMachineFile[] = "/machine";

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
  std::string gpu_share;  // "1/4"; empty: all gpus.
  uint64_t number = 0;    // Of the machine; 0: it runs without being asked for.
  std::string pool;
  uint32_t slot = 0;    // From 1; no two machines of a pool have the same.
  bool ending = false;  // It is to be removed, and not started again.
  WorkerProcess process;
  bool up = false;
  Clock::time_point started;
  Clock::time_point start_at;  // Not before.
  int short_lives = 0;

  MadeMachine made() const { return {number, worker.name, pool}; }
};

void WaitForExit(const WorkerProcess& process, milliseconds span) {
  pollfd ended{process.pid_fd(), POLLIN, 0};
  poll(&ended, 1, static_cast<int>(std::max<int64_t>(span.count(), 0)));
}

// SIGTERM to all, SIGKILL to those that are still there after 10 s.
void EndProcesses(std::vector<std::pair<std::string, WorkerProcess>>& processes) {
  for (auto& [name, process] : processes) process.Kill(SIGTERM);
  const auto until = Clock::now() + kTerminateMax;
  for (auto& [name, process] : processes) {
    WaitForExit(process, std::chrono::duration_cast<milliseconds>(until - Clock::now()));
    if (process.running()) {
      RT_LOG(kWarning) << name << " does not end; killing it";
      process.Kill(SIGKILL);
      WaitForExit(process, kPollMax);
    }
    process.Reap();
  }
}

void BackOff(Kept& kept) {
  const int steps = std::min(kept.short_lives - kShortLivesAtOnce, 10);
  kept.start_at = Clock::now();
  if (steps > 0) kept.start_at += std::min(kBackOffFirst * (1 << steps), kBackOffMax);
}

void Adopt(Kept& kept) {
  absl::StatusOr<WorkerProcess> process = WorkerProcess::Adopt(kept.directory);
  if (!process.ok()) return;
  kept.process = std::move(*process);
  kept.up = true;
  kept.started = Clock::now();
  RT_LOG(kInfo) << kept.worker.name << " still runs as process " << kept.process.pid();
}

absl::Status Unusable(const std::string& what) {
  return MakeProviderError(ProviderError::kBadConfiguration, what);
}

class LocalProviderImpl final : public LocalProvider {
 public:
  explicit LocalProviderImpl(Options options) : options_(std::move(options)) {
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    RT_CHECK(wake_ >= 0);
    const size_t count = options_.workers.size();
    for (const LocalWorker& worker : options_.workers) {
      Kept kept{.worker = worker, .directory = DirectoryOf(worker.name)};
      if (count > 1)  // They are on one machine: each gets its part of the gpus.
        kept.gpu_share = std::to_string(kept_.size() + 1) + "/" + std::to_string(count);
      kept_.emplace(worker.name, std::move(kept));
    }
    LoadMachines();
    for (auto& [name, kept] : kept_) Adopt(kept);
    thread_ = std::thread([this] { Run(); });
  }
  ~LocalProviderImpl() override {
    StopThread();
    close(wake_);
  }

  absl::StatusOr<std::vector<MadeMachine>> Create(const CreateCall& call) override {
    std::lock_guard lock(mutex_);
    const auto slots = options_.slots.find(call.pool);
    if (slots == options_.slots.end())
      return Unusable("the configuration has no pool '" + call.pool + "'");
    std::vector<MadeMachine> made;
    for (const WantedMachine& wanted : call.machines) {
      if (const Kept* known = FindNumber(wanted.number)) {
        made.push_back(known->made());
        continue;
      }
      const std::optional<uint32_t> slot = FreeSlot(call.pool, slots->second);
      if (!slot.has_value()) break;
      const absl::Status status = Make(call, wanted, *slot, slots->second);
      if (!status.ok() && made.empty()) return status;
      if (!status.ok()) break;
      made.push_back({wanted.number, wanted.name, call.pool});
    }
    Wake();
    if (!made.empty()) return made;
    return MakeProviderError(
        ProviderError::kCapacity,
        "all " + std::to_string(slots->second) + " workers of pool '" + call.pool + "' are there");
  }

  absl::StatusOr<std::vector<MadeMachine>> List() override {
    std::lock_guard lock(mutex_);
    std::vector<MadeMachine> machines;
    for (const auto& [name, kept] : kept_)
      if (kept.number != 0) machines.push_back(kept.made());
    std::sort(machines.begin(), machines.end(),
              [](const MadeMachine& a, const MadeMachine& b) { return a.number < b.number; });
    return machines;
  }

  absl::Status Terminate(const std::vector<std::string>& ids) override {
    std::lock_guard one_at_a_time(terminate_mutex_);
    std::vector<std::pair<std::string, WorkerProcess>> processes;
    std::vector<std::string> names;
    {
      std::lock_guard lock(mutex_);
      RT_RETURN_IF_ERROR(CheckOurs(ids));
      for (const std::string& id : ids) {
        const auto found = kept_.find(id);
        if (found == kept_.end()) continue;
        Kept& kept = found->second;
        kept.ending = true;
        RT_RETURN_IF_ERROR(Note(kept));
        if (kept.up) processes.emplace_back(id, std::move(kept.process));
        kept.up = false;
        names.push_back(id);
      }
    }
    Wake();  // It watches their descriptors.
    EndProcesses(processes);
    for (const std::string& name : names) {
      RT_RETURN_IF_ERROR(RemoveDirectory(DirectoryOf(name)));
      std::lock_guard lock(mutex_);
      kept_.erase(name);
    }
    return absl::OkStatus();
  }

  Millis list_lag() const override { return 0; }

  void EndAll() override {
    StopThread();
    std::vector<std::pair<std::string, WorkerProcess>> processes;
    for (auto& [name, kept] : kept_) {
      if (kept.up) processes.emplace_back(name, std::move(kept.process));
      kept.up = false;
    }
    EndProcesses(processes);
    for (auto& [name, kept] : kept_) {
      unlink((kept.directory + "/pid").c_str());
      unlink((kept.directory + "/pid.start").c_str());
      // The directory stays for whoever reads the logs; the machine is gone.
      if (kept.number != 0) unlink((kept.directory + kMachineFile).c_str());
    }
    std::erase_if(kept_, [](const auto& item) { return item.second.number != 0; });
  }

  bool Disowns(const std::string& state_dir) const override {
    const std::string& ours = options_.context.cluster_dir;
    if (!state_dir.starts_with(ours + "/")) return false;
    std::lock_guard lock(mutex_);
    return !kept_.contains(state_dir.substr(ours.size() + 1));
  }

 private:
  std::string DirectoryOf(const std::string& name) const {
    return options_.context.cluster_dir + "/" + name;
  }
  void Wake() {
    const uint64_t one = 1;
    RT_CHECK(write(wake_, &one, sizeof one) == sizeof one);
  }
  void StopThread() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    Wake();
    if (thread_.joinable()) thread_.join();
  }

  // --- machines, with the lock ------------------------------------------------------------------

  void LoadMachines() {
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(options_.context.cluster_dir, error)) {
      std::optional<Kept> kept = ReadMachine(entry.path().string());
      if (!kept.has_value()) continue;
      const std::string name = kept->worker.name;
      kept_.emplace(name, *std::move(kept));
    }
  }
  // nullopt: the directory does not belong to a machine of this cluster.
  std::optional<Kept> ReadMachine(const std::string& directory) const {
    absl::StatusOr<std::string> text = ReadFile(directory + kMachineFile, kMachineFileMax);
    absl::StatusOr<Json> json = text.ok() ? Json::Parse(*text) : text.status();
    if (!json.ok() || json->GetString("cluster") != options_.context.cluster_id) return {};
    Kept kept{.directory = directory,
              .gpu_share = json->GetString("gpu_share"),
              .number = static_cast<uint64_t>(json->GetInt("number")),
              .pool = json->GetString("pool"),
              .slot = static_cast<uint32_t>(json->GetInt("slot")),
              .ending = json->GetBool("ending")};
    kept.worker.name = std::filesystem::path(directory).filename().string();
    kept.worker.resources = json->GetString("resources");
    if (kept.number == 0) return {};
    return kept;
  }
  static Json MachineJson(const Kept& kept, const std::string& cluster) {
    return Json::MakeObject({{"cluster", cluster},
                             {"number", kept.number},
                             {"pool", kept.pool},
                             {"slot", kept.slot},
                             {"gpu_share", kept.gpu_share},
                             {"resources", kept.worker.resources},
                             {"ending", kept.ending}});
  }
  absl::Status Note(const Kept& kept) const {
    return WriteFileAtomic(kept.directory + kMachineFile,
                           MachineJson(kept, options_.context.cluster_id).Pretty() + "\n");
  }
  const Kept* FindNumber(uint64_t number) const {
    for (const auto& [name, kept] : kept_)
      if (kept.number == number) return &kept;
    return nullptr;
  }
  std::optional<uint32_t> FreeSlot(const std::string& pool, uint32_t slots) const {
    std::vector<bool> taken(slots + 1);
    for (const auto& [name, kept] : kept_)
      if (kept.pool == pool && kept.slot <= slots) taken[kept.slot] = true;
    for (uint32_t slot = 1; slot <= slots; ++slot)
      if (!taken[slot]) return slot;
    return std::nullopt;
  }
  absl::Status Make(const CreateCall& call, const WantedMachine& wanted, uint32_t slot,
                    uint32_t slots) {
    const std::string directory = DirectoryOf(wanted.name);
    if (kept_.contains(wanted.name) || Exists(directory + kMachineFile))
      return Unusable(directory + " belongs to another worker");
    // A head that died before it wrote the machine's file left a part of the directory.
    RT_RETURN_IF_ERROR(RemoveTree(directory));
    Kept kept{.directory = directory, .number = wanted.number, .pool = call.pool, .slot = slot};
    kept.worker = {.name = wanted.name, .resources = ToFlag(call.each), .labels = ""};
    if (slots > 1) kept.gpu_share = std::to_string(slot) + "/" + std::to_string(slots);
    RT_RETURN_IF_ERROR(EnsureDirectory(directory));
    RT_RETURN_IF_ERROR(Note(kept));
    kept_.emplace(wanted.name, std::move(kept));
    return absl::OkStatus();
  }
  absl::Status CheckOurs(const std::vector<std::string>& ids) const {
    for (const std::string& id : ids) {
      const bool is_plain = !id.empty() && id[0] != '.' && id.find('/') == std::string::npos;
      const auto found = kept_.find(id);
      const bool is_known = found != kept_.end() || (is_plain && Exists(DirectoryOf(id)));
      const bool is_ours = found != kept_.end() && found->second.number != 0;
      if (is_known && !is_ours)
        return MakeProviderError(ProviderError::kNotOurs,
                                 "'" + id + "' is not a machine of this cluster");
    }
    return absl::OkStatus();
  }

  static absl::Status RemoveDirectory(const std::string& directory) {
    KillStrays(directory);
    if (const auto sockets = FindRuntimeDir(directory)) RemoveTree(*sockets).IgnoreError();
    return RemoveTree(directory);
  }

  // --- the thread -------------------------------------------------------------------------------

  void Run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      StartDue(lock);
      if (stopping_) return;
      WaitForChange(lock);
      for (auto& [name, kept] : kept_)
        if (kept.up && !kept.process.running()) OnExit(kept);
    }
  }

  // The lock is released while a token is made, which may take as long as the head needs.
  void StartDue(std::unique_lock<std::mutex>& lock) {
    std::vector<std::string> due;
    for (const auto& [name, kept] : kept_)
      if (!kept.up && !kept.ending && Clock::now() >= kept.start_at) due.push_back(name);
    for (const std::string& name : due) {
      if (stopping_) return;
      Kept* kept = FindStartable(name);
      if (kept == nullptr) continue;
      const std::string directory = kept->directory;
      const uint64_t number = kept->number;
      lock.unlock();
      const absl::Status prepared = WriteToken(directory, number, name);
      lock.lock();
      kept = FindStartable(name);
      if (kept != nullptr) Finish(*kept, prepared.ok() ? Spawn(*kept) : prepared);
    }
  }
  Kept* FindStartable(const std::string& name) {
    const auto found = kept_.find(name);
    const bool may_start = found != kept_.end() && !found->second.ending && !found->second.up;
    return may_start ? &found->second : nullptr;
  }
  void Finish(Kept& kept, const absl::Status& started) {
    if (started.ok()) {
      RT_LOG(kInfo) << kept.worker.name << " started as process " << kept.process.pid();
      return;
    }
    RT_LOG(kError) << "cannot start " << kept.worker.name << ": " << MessageOf(started);
    kept.short_lives = std::max(kept.short_lives + 1, kShortLivesAtOnce + 3);
    BackOff(kept);
  }

  absl::Status WriteToken(const std::string& directory, uint64_t number, const std::string& name) {
    // That of a machine exists for as long as the machine does.
    if (number == 0) RT_RETURN_IF_ERROR(EnsureDirectory(directory));
    if (HasCertificate(directory)) return absl::OkStatus();
    RT_ASSIGN_OR_RETURN(std::string token, options_.context.make_token(number, name));
    return WriteFileAtomic(directory + "/token", token + "\n", {.sync = false});
  }
  absl::Status Spawn(Kept& kept) {
    std::vector<std::string> argv = {options_.context.worker_program,
                                     "--head",
                                     options_.context.head_address,
                                     "--token-file",
                                     kept.directory + "/token",
                                     "--state-dir",
                                     kept.directory,
                                     "--name",
                                     kept.worker.name};
    auto add = [&](const char* flag, const std::string& value) {
      if (value.empty()) return;
      argv.emplace_back(flag);
      argv.push_back(value);
    };
    add("--resources", kept.worker.resources);
    add("--gpu-share", kept.gpu_share);
    add("--labels", kept.worker.labels);
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
    const bool is_at_once = !kept.ending && kept.start_at - Clock::now() < kAtOnce;
    if (is_at_once && options_.context.daemon_ended)
      options_.context.daemon_ended(kept.worker.name);
  }

  void WaitForChange(std::unique_lock<std::mutex>& lock) {
    std::vector<pollfd> fds = {{wake_, POLLIN, 0}};
    auto until = Clock::now() + kPollMax;
    for (const auto& [name, kept] : kept_) {
      if (kept.up) fds.push_back({kept.process.pid_fd(), POLLIN, 0});
      else if (!kept.ending) until = std::min(until, kept.start_at);
    }
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    lock.unlock();
    poll(fds.data(), fds.size(), static_cast<int>(std::max<int64_t>(left, 0)));
    uint64_t woken = 0;
    if (fds[0].revents != 0) RT_CHECK(read(wake_, &woken, sizeof woken) == sizeof woken);
    lock.lock();
  }

  const Options options_;
  int wake_ = -1;
  std::mutex terminate_mutex_;        // Taken before the other one.
  mutable std::mutex mutex_;          // Guards what follows.
  std::map<std::string, Kept> kept_;  // By name.
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<LocalProvider> LocalProvider::Start(Options options) {
  return std::make_unique<LocalProviderImpl>(std::move(options));
}

}  // namespace rt
