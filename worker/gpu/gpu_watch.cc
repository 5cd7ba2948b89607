#include "worker/gpu/gpu_watch.h"

#include "worker/gpu/gpu_watch_impl.h"

namespace rt::worker {

GpuWatch::GpuWatch(GpuChoice choice, std::string state_dir, std::string boot_id,
                   std::string kernel_log, Millis call_max, std::string proc)
    : impl_(std::make_shared<Impl>(std::move(choice), state_dir, std::move(boot_id), kernel_log,
                                   call_max, std::move(proc))) {}

GpuWatch::~GpuWatch() { Stop(); }

absl::Status GpuWatch::Open() { return impl_->Open(impl_); }
void GpuWatch::Start(GpuWatchEvents events) { impl_->Start(impl_, std::move(events)); }
void GpuWatch::Stop() { impl_->Stop(); }
std::vector<Gpu> GpuWatch::gpus() const { return impl_->gpus(); }
int64_t GpuWatch::units() const { return impl_->units(); }
std::vector<GpuSample> GpuWatch::samples() const { return impl_->samples(); }
void GpuWatch::Clear(const std::string& uuid, uint64_t quarantine) {
  impl_->Clear(uuid, quarantine);
}
void GpuWatch::NoteFaulty(const std::string& uuid, const std::string& what) {
  impl_->NoteFaulty(uuid, what);
}
void GpuWatch::Begin(const GpuHolder& holder) { impl_->Begin(holder); }
void GpuWatch::End(const Fence& fence) { impl_->End(fence); }
void GpuWatch::SetFrozen(const Fence& fence, bool frozen) { impl_->SetFrozen(fence, frozen); }
bool GpuWatch::IsGivenBack(const Fence& fence) const { return impl_->IsGivenBack(fence); }
std::vector<GpuProcess> GpuWatch::ProcessesOn(const Fence& fence) const {
  return impl_->ProcessesOn(fence);
}
GpuUse GpuWatch::UseOf(const Fence& fence) const { return impl_->UseOf(fence); }
std::string GpuWatch::HangOf(const Fence& fence) const { return impl_->HangOf(fence); }
std::string GpuWatch::FaultOf(const Fence& fence) const { return impl_->FaultOf(fence); }
bool GpuWatch::Condemn(const std::string& uuid, const std::string& what) {
  return impl_->Condemn(uuid, what);
}
void GpuWatch::BlameMachine(const Fence& fence, const std::string& what) {
  impl_->BlameMachine(fence, what);
}
void GpuWatch::Forget(const Fence& fence) { impl_->Forget(fence); }

}  // namespace rt::worker
