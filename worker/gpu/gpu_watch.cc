#include "worker/gpu/gpu_watch.h"

#include <chrono>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/files.h"

namespace rt::worker {

GpuWatch::GpuWatch(GpuChoice choice, std::string state_dir, std::string boot_id)
    : choice_(std::move(choice)), file_(state_dir + "/gpus"), boot_id_(std::move(boot_id)) {}

GpuWatch::~GpuWatch() { Stop(); }

absl::Status GpuWatch::Open() {
  if (choice_.units == 0) return absl::OkStatus();
  absl::StatusOr<Nvml> nvml = Nvml::Open();
  if (nvml.ok()) {
    nvml_.emplace(*std::move(nvml));
    if (auto text = ReadFile(file_); text.ok()) all_ = RecallGpus(*text, boot_id_);
    Look();
  } else if (!absl::IsNotFound(nvml.status())) {
    RT_LOG(kWarning) << "gpus are not looked for: " << MessageOf(nvml.status());
  }
  return ChooseGpus(all_, choice_).status();
}

void GpuWatch::Start(std::function<void()> on_change) {
  if (!nvml_) return;
  on_change_ = std::move(on_change);
  thread_ = std::thread([this] { Run(); });
}

void GpuWatch::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::vector<Gpu> GpuWatch::gpus() const {
  std::lock_guard lock(mutex_);
  auto chosen = ChooseGpus(all_, choice_);
  return chosen.ok() ? *chosen : std::vector<Gpu>{};
}

int64_t GpuWatch::units() const { return GpuUnits(gpus(), choice_); }

void GpuWatch::Look() {
  auto found = nvml_->List();
  if (!found.ok()) {
    RT_LOG(kWarning) << "gpus: " << MessageOf(found.status());
    return;
  }
  std::lock_guard lock(mutex_);
  std::vector<Gpu> now = NumberGpus(all_, *found);
  if (now == all_) return;
  const bool grew = now.size() != all_.size();
  all_ = std::move(now);
  for (const Gpu& gpu : all_) {
    if (!gpu.facts.fault.empty()) {
      RT_LOG(kWarning) << "gpu " << gpu.index << " (" << gpu.facts.uuid
                       << ") takes no more work: " << gpu.facts.fault;
    }
  }
  if (!grew) return;
  if (absl::Status kept = WriteFileAtomic(file_, RememberGpus(all_, boot_id_)); !kept.ok()) {
    RT_LOG(kWarning) << MessageOf(kept);
  }
}

void GpuWatch::Run() {
  const auto interval = std::chrono::milliseconds(limits::kGpuLookEvery);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (stop_.wait_for(lock, interval, [this] { return stopping_; })) return;
    }
    const std::vector<Gpu> before = gpus();
    Look();
    if (gpus() != before) on_change_();
  }
}

}  // namespace rt::worker
