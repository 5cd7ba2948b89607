// The state of a GpuWatch: what is asked of it, and what it tells.
#include "worker/gpu/gpu_watch_impl.h"

#include <algorithm>
#include <chrono>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/clock.h"
#include "common/run/files.h"

namespace rt::worker {
namespace {

// How long Stop waits for the threads that call the driver before it leaves them behind: a worker
// is to end within 10 s, also when the driver hangs and the watch has not noticed that yet.
constexpr Millis kStopWait = 3'000;

}  // namespace

GpuWatch::Impl::Impl(GpuChoice choice, const std::string& state_dir, std::string boot_id,
                     const std::string& kernel_log, Millis call_max, std::string proc)
    : choice_(std::move(choice)), file_(state_dir + "/gpus"),
      quarantine_file_(state_dir + "/gpu_quarantine"), boot_id_(std::move(boot_id)),
      call_max_(call_max), processes_(std::move(proc)) {
  if (choice_.units == 0) return;
  kernel_log_.emplace(kernel_log);
  if (auto text = ReadFile(quarantine_file_); text.ok()) quarantine_ = Quarantine::Parse(*text);
}

absl::Status GpuWatch::Impl::Open(const std::shared_ptr<Impl>& self) {
  if (choice_.units == 0) return absl::OkStatus();
  RunThread(self, sampler_, &Impl::RunSampler);
  std::unique_lock lock(mutex_);
  const bool looked =
      wake_.wait_for(lock, std::chrono::milliseconds(call_max_), [this] { return opened_; });
  if (!looked) {
    hangs_ = true;
    RT_LOG(kError) << "NVML has not answered for " << call_max_ / 1'000
                   << " s: this worker starts without its gpus";
    return absl::OkStatus();
  }
  told_gpus_ = All();
  return ChooseGpus(all_, choice_).status();
}

void GpuWatch::Impl::Start(const std::shared_ptr<Impl>& self, GpuWatchEvents events) {
  if (!sampler_.joinable()) return;
  bool has_nvml = false;
  {
    std::lock_guard lock(mutex_);
    on_ = std::move(events);
    has_nvml = nvml_.has_value() || !opened_;
  }
  if (!has_nvml) return;
  RunThread(self, monitor_, &Impl::RunMonitor);
  RunThread(self, events_, &Impl::RunEvents);
  Tell();
}

void GpuWatch::Impl::RunThread(const std::shared_ptr<Impl>& self, std::thread& thread,
                               void (Impl::*run)()) {
  {
    std::lock_guard lock(mutex_);
    ++running_;
  }
  thread = std::thread([self, run] {
    (self.get()->*run)();
    {
      std::lock_guard lock(self->mutex_);
      --self->running_;
    }
    self->wake_.notify_all();
  });
}

// Threads that wait for a driver that hangs are left behind: they own what they use, and call no
// event any more.
void GpuWatch::Impl::Stop() {
  const bool has_threads = monitor_.joinable() || sampler_.joinable() || events_.joinable();
  if (!has_threads) return;  // Also after a stop that left threads behind.
  bool all_ended = false;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    all_ended = wake_.wait_for(lock, std::chrono::milliseconds(kStopWait),
                               [this] { return running_ == 0; });
  }
  if (!all_ended) {
    std::lock_guard telling(telling_);
    std::lock_guard lock(mutex_);
    on_ = {};
  }
  for (std::thread* thread : {&monitor_, &sampler_, &events_}) {
    if (!thread->joinable()) continue;
    if (all_ended) thread->join();
    else thread->detach();
  }
}

bool GpuWatch::Impl::IsStopping() const {
  std::lock_guard lock(mutex_);
  return stopping_;
}

// A gpu has one fault at a time. The one that NVML lists comes first, then that of a quarantine, of
// a driver that hangs, and of memory that an attempt has left in use.
std::vector<Gpu> GpuWatch::Impl::All() const {
  std::vector<Gpu> all = all_;
  for (Gpu& gpu : all) {
    const Quarantined* quarantined = quarantine_.Find(gpu.facts.uuid);
    gpu.quarantine = quarantined == nullptr ? 0 : quarantined->number;
    gpu.by_hand = quarantined != nullptr && quarantined->by_hand;
    if (!gpu.facts.fault.empty()) continue;
    const auto kept = kept_.find(gpu.facts.uuid);
    if (quarantined != nullptr) gpu.facts.fault = quarantined->why;
    else if (hangs_) gpu.facts.fault = HangText();
    else if (kept != kept_.end()) gpu.facts.fault = kept->second;
  }
  return all;
}

std::string GpuWatch::Impl::HangText() const {
  return std::string("its driver does not answer") +
         (hung_.empty() ? "" : ": a call about gpu " + hung_ + " hangs");
}

std::string GpuWatch::Impl::WhyDrain() const {
  std::vector<std::string> listed;
  for (const Gpu& gpu : Chosen(all_)) listed.push_back(gpu.facts.uuid);
  return quarantine_.WhyDrain(listed);
}

std::vector<Gpu> GpuWatch::Impl::gpus() const {
  std::lock_guard lock(mutex_);
  if (all_.empty() && hangs_) {
    Gpu unknown;
    unknown.facts.uuid = hung_.empty() ? "unknown" : hung_;
    unknown.facts.name = "gpu";
    unknown.facts.fault = HangText();
    return {unknown};
  }
  return Chosen(All());
}

std::vector<Gpu> GpuWatch::Impl::Chosen(const std::vector<Gpu>& all) const {
  auto chosen = ChooseGpus(all, choice_);
  return chosen.ok() ? *std::move(chosen) : std::vector<Gpu>{};
}

int64_t GpuWatch::Impl::units() const { return GpuUnits(gpus(), choice_); }

std::vector<GpuSample> GpuWatch::Impl::samples() const {
  const std::vector<Gpu> offered = gpus();
  std::vector<GpuSample> samples;
  std::lock_guard lock(mutex_);
  if (hangs_) return samples;
  for (const Gpu& gpu : offered)
    for (const GpuSample& sample : samples_)
      if (sample.uuid == gpu.facts.uuid) samples.push_back(sample);
  return samples;
}

// The monitor's thread calls the events: the caller of Clear may hold locks that the events need.
void GpuWatch::Impl::Clear(const std::string& uuid, uint64_t quarantine) {
  {
    std::lock_guard lock(mutex_);
    if (!quarantine_.Clear(uuid, quarantine)) return;
    filter_.Forget(uuid);
    RT_LOG(kInfo) << "the quarantine of gpu " << uuid << " is over";
  }
  KeepQuarantine();
  {
    std::lock_guard lock(mutex_);
    has_news_ = true;
  }
  wake_.notify_all();
}

// As Clear: the monitor's thread tells the inventory.
void GpuWatch::Impl::NoteFaulty(const std::string& uuid, const std::string& what) {
  {
    std::lock_guard lock(mutex_);
    const bool is_listed = std::any_of(all_.begin(), all_.end(),
                                       [&](const Gpu& gpu) { return gpu.facts.uuid == uuid; });
    if (!is_listed || !quarantine_.Add(uuid, {.why = what}, WallClock())) return;
    RT_LOG(kWarning) << "gpu " << uuid << ": " << what;
  }
  KeepQuarantine();
  {
    std::lock_guard lock(mutex_);
    has_news_ = true;
  }
  wake_.notify_all();
}

void GpuWatch::Impl::Begin(const GpuHolder& holder) {
  std::lock_guard lock(mutex_);
  // Samples before now took its memory for that of an idle gpu.
  if (holder.is_adopted)
    for (const std::string& uuid : holder.uuids) idle_.erase(uuid);
  attempts_.Begin(holder, SteadyClock());
}

void GpuWatch::Impl::End(const Fence& fence) {
  {
    std::lock_guard lock(mutex_);
    attempts_.End(fence, SteadyClock());
    if (hangs_) KeepUnchecked();
    else if (!nvml_) attempts_.NoteGivenBack(fence);  // Without NVML nothing is known of its use.
  }
  wake_.notify_all();
}

void GpuWatch::Impl::SetFrozen(const Fence& fence, bool frozen) {
  std::lock_guard lock(mutex_);
  attempts_.SetFrozen(fence, frozen, SteadyClock());
}

std::vector<GpuProcess> GpuWatch::Impl::ProcessesOn(const Fence& fence) const {
  std::lock_guard lock(mutex_);
  std::vector<GpuProcess> processes;
  if (hangs_) return processes;
  for (const std::string& uuid : attempts_.WholeOf(fence))
    for (const GpuSample& sample : samples_)
      if (sample.uuid == uuid)
        processes.insert(processes.end(), sample.processes.begin(), sample.processes.end());
  return processes;
}

bool GpuWatch::Impl::IsGivenBack(const Fence& fence) const {
  std::lock_guard lock(mutex_);
  return taking_ == 0 && attempts_.IsGivenBack(fence);
}

GpuUse GpuWatch::Impl::UseOf(const Fence& fence) const {
  std::lock_guard lock(mutex_);
  return attempts_.UseOf(fence, SteadyClock());
}

std::string GpuWatch::Impl::HangOf(const Fence& fence) const {
  std::lock_guard lock(mutex_);
  return hangs_ && attempts_.HoldsAny(fence) ? HangText() : "";
}

std::string GpuWatch::Impl::FaultOf(const Fence& fence) const {
  std::lock_guard lock(mutex_);
  return attempts_.FaultOf(fence);
}

void GpuWatch::Impl::BlameMachine(const Fence& fence, const std::string& what) {
  std::lock_guard lock(mutex_);
  attempts_.NoteFaultOf(fence, what);
}

void GpuWatch::Impl::Forget(const Fence& fence) {
  std::lock_guard lock(mutex_);
  attempts_.Forget(fence);
}

void GpuWatch::Impl::TakeFault(const std::vector<std::string>& uuids, uint64_t xid) {
  const XidClass kind = ClassOfXid(xid);
  const std::string what = DescribeXid(xid);
  bool keeps = false;
  {
    std::lock_guard lock(mutex_);
    bool is_news = false;
    for (const std::string& uuid : uuids)
      is_news = filter_.IsNews(uuid, xid, SteadyClock()) || is_news;
    if (!is_news) return;
    RT_LOG(kWarning) << "gpu " << uuids.front() << ": " << what << " (" << XidClassName(kind)
                     << ")";
    if (kind < XidClass::kRetry) return;
    const std::string why = "gpu " + uuids.front() + ": " + what;
    for (const Fence& fence : attempts_.NoteFault(uuids, why))
      if (kind > XidClass::kRetry) struck_.emplace_back(fence, why);
    if (kind > XidClass::kRetry)
      for (const std::string& uuid : uuids)
        keeps = quarantine_.Add(
                    uuid,
                    {.why = what, .drains = kind == XidClass::kDrain, .by_hand = NeedsPerson(xid)},
                    WallClock()) ||
                keeps;
    ++taking_;
  }
  TellFault(keeps);
}

void GpuWatch::Impl::TellFault(bool keeps) {
  if (keeps) KeepQuarantine();
  Tell();
  {
    std::lock_guard lock(mutex_);
    --taking_;
    given_back_ = has_news_ = true;  // What asked meanwhile is to ask again.
  }
  wake_.notify_all();
}

bool GpuWatch::Impl::Condemn(const std::string& uuid, const std::string& what) {
  bool keeps = false;
  {
    std::lock_guard lock(mutex_);
    const bool is_listed = std::any_of(all_.begin(), all_.end(),
                                       [&](const Gpu& gpu) { return gpu.facts.uuid == uuid; });
    if (!is_listed) return false;
    RT_LOG(kWarning) << "gpu " << uuid << ": " << what;
    attempts_.NoteFault({uuid}, "gpu " + uuid + ": " + what);
    keeps = quarantine_.Add(uuid, {.why = what}, WallClock());
    ++taking_;
  }
  TellFault(keeps);
  return true;
}

void GpuWatch::Impl::KeepQuarantine() {
  std::lock_guard keeping(keeping_);  // The newest text is written last.
  std::string text;
  {
    std::lock_guard lock(mutex_);
    text = quarantine_.Text();
  }
  if (const absl::Status kept = WriteFileAtomic(quarantine_file_, text); !kept.ok()) {
    RT_LOG(kWarning) << MessageOf(kept);
  }
}

// One thread reads at a time. When this returns, the faults that were in the log at the call have
// been told, also those that another thread has read.
void GpuWatch::Impl::ReadKernelLog() {
  std::lock_guard reading(reading_);
  for (const KernelXid& told : kernel_log_->Read()) {
    std::vector<std::string> uuids;
    {
      std::lock_guard lock(mutex_);
      for (const Gpu& gpu : all_)
        if (gpu.facts.bus == told.bus) uuids.push_back(gpu.facts.uuid);
    }
    TakeFault(uuids, told.xid);
  }
}

void GpuWatch::Impl::Tell() {
  std::lock_guard telling(telling_);  // The newest state is told last.
  GpuWatchEvents on;
  std::vector<std::pair<Fence, std::string>> struck;
  bool changed = false, given_back = false, drains = false;
  std::string why_drain;
  {
    std::lock_guard lock(mutex_);
    if (on_.on_change == nullptr) return;
    on = on_;
    std::vector<Gpu> now = All();
    changed = now != told_gpus_;
    told_gpus_ = std::move(now);
    why_drain = WhyDrain();
    drains = why_drain != told_drain_;
    told_drain_ = why_drain;
    struck.swap(struck_);
    std::swap(given_back, given_back_);
  }
  // The inventory is sent first, so that the head places nothing more on a gpu with a fault.
  if (changed) on.on_change();
  if (drains && on.on_drain) on.on_drain(why_drain);
  for (const auto& [fence, why] : struck)
    if (on.on_fault) on.on_fault(fence, why);
  if (given_back && on.on_given_back) on.on_given_back();
}

}  // namespace rt::worker
