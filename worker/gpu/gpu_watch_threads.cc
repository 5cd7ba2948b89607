// The threads of a GpuWatch.
#include <pthread.h>

#include <chrono>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/files.h"
#include "common/spec/resources.h"
#include "worker/gpu/gpu_watch_impl.h"

namespace rt::worker {
namespace {

constexpr Millis kEventWait = 500;  // So late a stop is noticed.
constexpr Millis kMonitorEvery = 500;

std::string Excuse(const std::string& what, const std::string& uuid) {
  return "gpu " + uuid + ": " + what;
}

}  // namespace

bool GpuWatch::Impl::OpenNvml() {
  absl::StatusOr<Nvml> nvml = Nvml::Open();
  if (!nvml.ok()) {
    if (!absl::IsNotFound(nvml.status())) {
      RT_LOG(kWarning) << "gpus are not looked for: " << MessageOf(nvml.status());
    }
    return false;
  }
  std::lock_guard lock(mutex_);
  nvml_.emplace(*std::move(nvml));
  if (auto text = ReadFile(file_); text.ok()) all_ = RecallGpus(*text, boot_id_);
  return true;
}

void GpuWatch::Impl::RunSampler() {
  ::pthread_setname_np(::pthread_self(), "gpu-sampler");
  call_since_ = SteadyClock();
  const bool has_nvml = OpenNvml();
  if (has_nvml) {
    Look();
    Sample(true);
  }
  call_since_ = 0;
  {
    std::lock_guard lock(mutex_);
    opened_ = true;
  }
  wake_.notify_all();
  Millis looked = SteadyClock(), sampled = looked;
  while (has_nvml) {
    {
      std::unique_lock lock(mutex_);
      const Millis next = attempts_.Endings().empty()
                              ? sampled + limits::kGpuSampleEvery - SteadyClock()
                              : limits::kGpuFreeEvery;
      wake_.wait_for(lock, std::chrono::milliseconds(std::max<Millis>(1, next)), [this, next] {
        return stopping_ || (next > limits::kGpuFreeEvery && !attempts_.Endings().empty());
      });
      if (stopping_) return;
    }
    call_since_ = SteadyClock();
    const bool looks = SteadyClock() - looked >= limits::kGpuLookEvery;
    if (looks) {
      Look();
      looked = SteadyClock();
    }
    const Millis late = SteadyClock() - sampled - limits::kGpuSampleEvery;
    if (looks || late >= 0) {
      const bool is_on_time = !looks && late < limits::kGpuSampleEvery;
      sampled = is_on_time ? sampled + limits::kGpuSampleEvery : SteadyClock();
      Sample(looks);
    }
    GiveBack();
    call_since_ = 0;
    Tell();
  }
}

void GpuWatch::Impl::Look() {
  auto found = nvml_->List();
  if (!found.ok()) {
    RT_LOG(kWarning) << "gpus: " << MessageOf(found.status());
    return;
  }
  std::string text;
  {
    std::lock_guard lock(mutex_);
    std::vector<Gpu> now = NumberGpus(all_, *found);
    if (now == all_) return;
    const bool grew = now.size() != all_.size();
    all_ = std::move(now);
    for (const Gpu& gpu : all_) {
      if (gpu.facts.fault.empty()) continue;
      RT_LOG(kWarning) << "gpu " << gpu.index << " (" << gpu.facts.uuid
                       << ") takes no more work: " << gpu.facts.fault;
      attempts_.NoteFault({gpu.facts.uuid}, Excuse(gpu.facts.fault, gpu.facts.uuid));
    }
    if (!grew) return;
    text = RememberGpus(all_, boot_id_);
  }
  if (absl::Status kept = WriteFileAtomic(file_, text); !kept.ok()) {
    RT_LOG(kWarning) << MessageOf(kept);
  }
}

void GpuWatch::Impl::NameProcesses(std::vector<GpuProcess>& processes) const {
  for (GpuProcess& process : processes) {
    const GpuProcesses::Known known = processes_.Of(process.pid);
    process.name = known.name;
    process.attempt = attempts_.AttemptOf(known.token);
  }
}

void GpuWatch::Impl::Sample(bool whole) {
  std::vector<GpuSample> last;
  if (!whole) {
    std::lock_guard lock(mutex_);
    last = samples_;
  }
  std::vector<GpuSample> samples = nvml_->Sample(last);
  const Millis now = WallClock();
  std::set<uint64_t> listed;
  for (const GpuSample& sample : samples) {
    processes_.Read(sample.processes);
    for (const GpuProcess& process : sample.processes) listed.insert(process.pid);
  }
  processes_.KeepOnly(listed);
  std::set<std::string> failed;
  {
    std::lock_guard lock(mutex_);
    for (GpuSample& sample : samples) {
      sample.at = now;
      NameProcesses(sample.processes);
      const bool is_idle = !attempts_.IsHeld(sample.uuid) && !kept_.contains(sample.uuid);
      if (is_idle && sample.memory_used >= 0)
        idle_[sample.uuid] = {sample.memory_used, sample.processes};
      if (sample.remap_failed) failed.insert(sample.uuid);
    }
    attempts_.Add(samples);
    samples_ = std::move(samples);
  }
  constexpr uint64_t kCouldNotReplace = 64;
  for (const std::string& uuid : failed) TakeFault({uuid}, kCouldNotReplace);
}

// Of one gpu that an attempt has held; ends what the attempt left there.
Leftover GpuWatch::Impl::LookAt(const GpuAttempts::Ending& ending, const std::string& uuid) {
  std::optional<GpuHolders> holders = nvml_->HoldersOf(uuid);
  if (!holders) return {};  // It is gone, which a look notices.
  processes_.Read(holders->processes);
  std::optional<GpuHolders> idle;
  std::set<uint64_t> own;
  {
    std::lock_guard lock(mutex_);
    NameProcesses(holders->processes);
    if (const auto found = idle_.find(uuid); found != idle_.end()) idle = found->second;
    const std::string& token = ending.holder.token;  // Its attempt may be forgotten by now.
    for (const GpuProcess& process : holders->processes)
      if (!token.empty() && processes_.Of(process.pid).token == token) own.insert(process.pid);
  }
  for (uint64_t pid : own) {  // It takes the driver a while to take its memory back.
    if (!processes_.End(pid, ending.holder.token)) continue;
    RT_LOG(kWarning) << rt::ToString(ending.holder.fence) << ": ended pid " << pid << " ("
                     << processes_.Of(pid).name
                     << "), which it left behind and which holds memory of gpu " << uuid;
  }
  const bool is_shared = ending.holder.units > 0 && ending.holder.units < kUnit;
  return FindLeftover(*holders, idle, own, is_shared);
}

void GpuWatch::Impl::TakeBack(const GpuAttempts::Ending& ending, Millis now) {
  std::map<std::string, std::string> left;
  for (const std::string& uuid : ending.holder.uuids) {
    const Leftover found = LookAt(ending, uuid);
    if (!found.is_free()) left[uuid] = DescribeLeftover(ending.holder.fence, found);
  }
  const Millis waited = now - ending.since;
  if (!left.empty() && waited < limits::kGpuFreeWait) return;
  std::lock_guard lock(mutex_);
  attempts_.NoteGivenBack(ending.holder.fence);
  given_back_ = true;
  for (const auto& [uuid, what] : left) {
    RT_LOG(kWarning) << "gpu " << uuid << " takes no more work: " << what;
    kept_[uuid] = what;
    kept_by_[uuid] = ending;
  }
  if (left.empty()) {
    RT_LOG(kInfo) << rt::ToString(ending.holder.fence) << ": its gpus are free "
                  << SteadyClock() - ending.since << " ms after its end";
  }
}

void GpuWatch::Impl::GiveBack() {
  std::vector<GpuAttempts::Ending> endings;
  std::map<std::string, GpuAttempts::Ending> kept;
  {
    std::lock_guard lock(mutex_);
    endings = attempts_.Endings();
    if (endings.empty()) kept = kept_by_;
  }
  if (!endings.empty()) ReadKernelLog();  // Why they ended, perhaps.
  for (const GpuAttempts::Ending& ending : endings) TakeBack(ending, SteadyClock());
  for (const auto& [uuid, ending] : kept) {
    if (!LookAt(ending, uuid).is_free()) continue;
    RT_LOG(kInfo) << "gpu " << uuid << " is free again";
    std::lock_guard lock(mutex_);
    kept_.erase(uuid);
    kept_by_.erase(uuid);
  }
}

void GpuWatch::Impl::RunEvents() {
  bool is_said = false;
  while (!IsStopping()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return opened_ || stopping_; });
      if (stopping_ || !nvml_) return;
    }
    auto event = nvml_->WaitForEvent(kEventWait);
    if (!event.ok()) {
      if (!is_said) {
        RT_LOG(kInfo) << "the driver's events are not heard: " << MessageOf(event.status())
                      << (kernel_log_->is_open() ? "; the kernel's log is read"
                                                 : "; nor can the kernel's log be read");
      }
      is_said = true;
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, std::chrono::milliseconds(limits::kGpuLookEvery),
                     [this] { return stopping_; });
      continue;
    }
    if (*event && !(*event)->uuids.empty()) TakeFault((*event)->uuids, (*event)->xid);
  }
}

// The thread that hangs is the one that would see whether their memory is free.
void GpuWatch::Impl::KeepUnchecked() {
  for (const GpuAttempts::Ending& ending : attempts_.Endings()) {
    attempts_.NoteGivenBack(ending.holder.fence);
    given_back_ = true;
    for (const std::string& uuid : ending.holder.uuids) {
      kept_[uuid] = "its driver did not say whether " + rt::ToString(ending.holder.fence) +
                    " has given its memory back";
      kept_by_[uuid] = ending;
    }
  }
}

// As after an Xid of the class quarantine: what runs there is ended if it does not end.
bool GpuWatch::Impl::NoteHung(const Nvml::Asked& asked) {
  const std::string& uuid = asked.uuid;
  const bool is_hung = !uuid.empty() && SteadyClock() - asked.since >= call_max_;
  if (!is_hung) return false;
  const std::string what = "NVML did not answer about it for " +
                           FormatDouble(static_cast<double>(call_max_) / 1e3) + " s";
  const std::string why = "gpu " + uuid + ": " + what;
  if (hung_ != uuid) {
    RT_LOG(kError) << why;
    for (const Fence& fence : attempts_.NoteFault({uuid}, why)) struck_.emplace_back(fence, why);
  }
  hung_ = uuid;
  return quarantine_.Add(uuid, {.why = what}, WallClock());
}

void GpuWatch::Impl::NoteHang() {
  const Millis since = call_since_;
  const bool hangs = since != 0 && SteadyClock() - since >= call_max_;
  bool keeps = false;
  {
    std::lock_guard lock(mutex_);
    if (hangs && nvml_) keeps = NoteHung(nvml_->asked());
    if (hangs && !hangs_) {
      RT_LOG(kError) << "NVML has not answered for " << call_max_ / 1'000
                     << " s: no gpu takes work until it does";
    }
    if (!hangs && hangs_) {
      RT_LOG(kInfo) << "NVML answers again";
      hung_.clear();
    }
    hangs_ = hangs;
    if (hangs) KeepUnchecked();
  }
  if (keeps) KeepQuarantine();
}

void GpuWatch::Impl::RunMonitor() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, std::chrono::milliseconds(kMonitorEvery),
                     [this] { return stopping_ || has_news_; });
      if (stopping_) return;
      has_news_ = false;
    }
    NoteHang();
    Tell();
    ReadKernelLog();
  }
}

}  // namespace rt::worker
