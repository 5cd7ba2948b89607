// The state of a GpuWatch: what is asked of it, and what it tells.
#include "worker/gpu/gpu_watch_impl.h"

#include <chrono>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/clock.h"
#include "common/run/files.h"

namespace rt::worker {

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
  sampler_ = std::thread([self] { self->RunSampler(); });
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
  monitor_ = std::thread([self] { self->RunMonitor(); });
  events_ = std::thread([self] { self->RunEvents(); });
  Tell();
}

// Threads that the driver holds are left behind: they own what they use.
void GpuWatch::Impl::Stop() {
  bool hangs = false;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    hangs = hangs_;
  }
  wake_.notify_all();
  if (monitor_.joinable()) monitor_.join();
  for (std::thread* thread : {&sampler_, &events_}) {
    if (!thread->joinable()) continue;
    if (hangs) thread->detach();
    else thread->join();
  }
}

bool GpuWatch::Impl::IsStopping() const {
  std::lock_guard lock(mutex_);
  return stopping_;
}

// A fault that a look or a hang shows is not hidden by a quarantine: neither ends the other.
std::vector<Gpu> GpuWatch::Impl::All() const {
  std::vector<Gpu> all = all_;
  for (Gpu& gpu : all) {
    const Quarantined* quarantined = quarantine_.Find(gpu.facts.uuid);
    if (quarantined != nullptr) gpu.quarantine = quarantined->number;
    if (!gpu.facts.fault.empty()) continue;
    const auto kept = kept_.find(gpu.facts.uuid);
    if (quarantined != nullptr) gpu.facts.fault = quarantined->why;
    else if (hangs_) gpu.facts.fault = "its driver does not answer";
    else if (kept != kept_.end()) gpu.facts.fault = kept->second;
  }
  return all;
}

std::string GpuWatch::Impl::WhyDrain() const {
  return hangs_ ? "the driver of its gpus does not answer" : quarantine_.WhyDrain();
}

std::vector<Gpu> GpuWatch::Impl::gpus() const {
  std::lock_guard lock(mutex_);
  if (all_.empty() && hangs_) return {};
  auto chosen = ChooseGpus(All(), choice_);
  return chosen.ok() ? *chosen : std::vector<Gpu>{};
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

// The monitor tells it: the caller may hold locks that the events need.
void GpuWatch::Impl::Clear(const std::string& uuid, uint64_t quarantine) {
  {
    std::lock_guard lock(mutex_);
    if (!quarantine_.Clear(uuid, quarantine)) return;
    RT_LOG(kInfo) << "the quarantine of gpu " << uuid << " is over";
    const absl::Status kept = WriteFileAtomic(quarantine_file_, quarantine_.Text());
    if (!kept.ok()) {
      RT_LOG(kWarning) << MessageOf(kept);
    }
    has_news_ = true;
  }
  wake_.notify_all();
}

void GpuWatch::Impl::Begin(const GpuHolder& holder) {
  std::lock_guard lock(mutex_);
  attempts_.Begin(holder, SteadyClock());
}

void GpuWatch::Impl::End(const Fence& fence) {
  {
    std::lock_guard lock(mutex_);
    attempts_.End(fence, SteadyClock());
    if (!nvml_) attempts_.NoteGivenBack(fence);  // Nobody can tell.
  }
  wake_.notify_all();
}

bool GpuWatch::Impl::IsGivenBack(const Fence& fence) const {
  std::lock_guard lock(mutex_);
  return hangs_ || attempts_.IsGivenBack(fence);
}

GpuUse GpuWatch::Impl::UseOf(const Fence& fence) const {
  std::lock_guard lock(mutex_);
  return attempts_.UseOf(fence, SteadyClock());
}

std::string GpuWatch::Impl::FaultOf(const Fence& fence) const {
  std::lock_guard lock(mutex_);
  return attempts_.FaultOf(fence);
}

void GpuWatch::Impl::Forget(const Fence& fence) {
  std::lock_guard lock(mutex_);
  attempts_.Forget(fence);
}

void GpuWatch::Impl::TakeFault(const std::vector<std::string>& uuids, uint64_t xid) {
  const XidClass kind = ClassOfXid(xid);
  const std::string what = DescribeXid(xid);
  {
    std::lock_guard lock(mutex_);
    bool is_news = false;
    for (const std::string& uuid : uuids) {
      // The driver tells it twice, as an event and in the kernel's log.
      const auto [at, is_first] = told_.try_emplace({uuid, xid}, SteadyClock());
      constexpr Millis kSame = 10'000;
      is_news = is_news || is_first || SteadyClock() - at->second > kSame;
      at->second = SteadyClock();
    }
    if (!is_news || uuids.empty()) return;
    RT_LOG(kWarning) << "gpu " << uuids.front() << ": " << what << " (" << XidClassName(kind)
                     << ")";
    if (kind < XidClass::kRetry) return;
    const std::string why = "gpu " + uuids.front() + ": " + what;
    for (const Fence& fence : attempts_.NoteFault(uuids, why))
      if (kind > XidClass::kRetry) struck_.emplace_back(fence, why);
  }
  if (kind > XidClass::kRetry) QuarantineThem(uuids, what, kind == XidClass::kDrain);
  Tell();
}

void GpuWatch::Impl::QuarantineThem(const std::vector<std::string>& uuids, const std::string& why,
                                    bool drains) {
  std::lock_guard lock(mutex_);
  bool changed = false;
  for (const std::string& uuid : uuids)
    changed = quarantine_.Add(uuid, why, drains, WallClock()) || changed;
  if (!changed) return;
  const absl::Status kept = WriteFileAtomic(quarantine_file_, quarantine_.Text());
  if (!kept.ok()) {
    RT_LOG(kWarning) << MessageOf(kept);
  }
}

void GpuWatch::Impl::Tell() {
  std::lock_guard telling(telling_);  // What is told later is newer.
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
  // The inventory first: where it says that a gpu has a fault, nothing more is placed on it.
  if (changed) on.on_change();
  if (drains && on.on_drain) on.on_drain(why_drain);
  for (const auto& [fence, why] : struck)
    if (on.on_fault) on.on_fault(fence, why);
  if (given_back && on.on_given_back) on.on_given_back();
}

}  // namespace rt::worker
