#include "common/cas/store_space.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

absl::Status QuotaError(Bytes quota, Bytes used, Bytes asked) {
  return WithHint(
      absl::ResourceExhaustedError(ToAbsl(
          "the checkpoint store has no room: " + BytesText(used) + " of its quota of " +
          BytesText(quota) + " are used, and " + BytesText(asked) + " more are to be written")),
      "raise checkpoint_store/quota in cluster.yaml (then rt up), or keep fewer checkpoints "
      "(CheckpointConfig num_to_keep)");
}

}  // namespace

Bytes SpaceKeptFree(Bytes file_system_bytes) {
  const Bytes least = std::min(limits::kFreeBytesMin, file_system_bytes / 4);
  const Bytes share = file_system_bytes / 100 * limits::kFreePercent;
  return std::clamp(share, least, limits::kFreeBytesMax);
}

absl::Status CheckSpace(const std::string& directory, Bytes bytes) {
  struct statvfs info {};
  if (::statvfs(directory.c_str(), &info) != 0) return ErrnoStatus(errno, directory);
  const auto block = static_cast<Bytes>(info.f_frsize);
  const Bytes kept = SpaceKeptFree(static_cast<Bytes>(info.f_blocks) * block);
  const Bytes free = static_cast<Bytes>(info.f_bavail) * block;
  if (free - bytes >= kept) return absl::OkStatus();
  return WithHint(
      absl::ResourceExhaustedError(ToAbsl(
          "the disk of " + directory + " has " + BytesText(free) + " free; " + BytesText(bytes) +
          " are to be written, and " + BytesText(kept) + " are kept free")),
      "make room there, keep fewer checkpoints (CheckpointConfig num_to_keep), or set "
      "checkpoint_store to a larger disk or a bucket");
}

StoreSpace::Part::Part(Part&& other) noexcept
    : space_(std::exchange(other.space_, nullptr)), left_(other.left_) {}

StoreSpace::Part::~Part() {
  if (space_ == nullptr) return;
  std::lock_guard lock(space_->mutex_);
  space_->growing_ -= left_.growth;
  space_->writing_ -= left_.written;
}

void StoreSpace::Part::Keep(Bytes bytes, Bytes replaced) {
  const Bytes growth = std::clamp<Bytes>(bytes - replaced, 0, left_.growth);
  const Bytes written = std::min(bytes, left_.written);
  left_.growth -= growth;
  left_.written -= written;
  std::lock_guard lock(space_->mutex_);
  space_->growing_ -= growth;
  space_->writing_ -= written;
  space_->used_ += bytes - replaced;
  // Of a place that is no disk of ours, only a write that succeeds tells that it has room again.
  if (space_->refusal_ == Refusal::kPlace && space_->directory_.empty()) space_->Accept();
}

absl::StatusOr<StoreSpace::Part> StoreSpace::Take(const Want& want) {
  RT_RETURN_IF_ERROR(TakeOfQuota(want));
  Part part(*this, want);
  if (directory_.empty()) return part;
  Bytes writing = 0;
  {
    std::lock_guard lock(mutex_);
    writing = writing_;
  }
  // Writes that end meanwhile count twice, and none not at all.
  absl::Status status = CheckSpace(directory_, writing);
  if (status.ok()) return part;
  if (absl::IsResourceExhausted(status)) Refused(status, want.written);
  return status;
}

absl::Status StoreSpace::TakeOfQuota(const Want& want) {
  std::lock_guard lock(mutex_);
  const Bytes used = used_ + growing_;
  if (quota_ > 0 && want.growth > 0 && used + want.growth > quota_ + want.beyond) {
    absl::Status status = QuotaError(quota_, used, want.growth);
    // What may pass the quota is a sweep's, for which nobody waits.
    if (want.beyond == 0) Refuse(Refusal::kQuota, status, want.growth);
    return status;
  }
  growing_ += want.growth;
  writing_ += want.written;
  return absl::OkStatus();
}

void StoreSpace::Refused(const absl::Status& status, Bytes bytes) {
  std::lock_guard lock(mutex_);
  Refuse(Refusal::kPlace, status, bytes);
}

void StoreSpace::Refuse(Refusal why, const absl::Status& status, Bytes bytes) {
  if (refusal_ == Refusal::kNone) {
    RT_LOG(kWarning) << "new checkpoints wait: " << MessageOf(status) << " (" << HintOf(status)
                     << ")";
  }
  short_ = true;
  refusal_ = why;
  asked_ = bytes;
  reason_ = MessageOf(status);
}

void StoreSpace::Accept() {
  RT_LOG(kWarning) << "the checkpoint store has room again: " << BytesText(used_)
                   << (quota_ > 0 ? " of " + BytesText(quota_) : std::string()) << " are used";
  refusal_ = Refusal::kNone;
  reason_.clear();
}

void StoreSpace::Count(Bytes change) {
  std::lock_guard lock(mutex_);
  used_ += change;
}

bool StoreSpace::IsShort() const {
  std::lock_guard lock(mutex_);
  return short_;
}

void StoreSpace::BeginSweep() {
  std::lock_guard lock(mutex_);
  short_ = false;
}

void StoreSpace::LookAgain() {
  Bytes needed = 0;
  {
    std::lock_guard lock(mutex_);
    if (refusal_ == Refusal::kQuota && used_ + asked_ <= quota_) Accept();
    if (refusal_ != Refusal::kPlace || directory_.empty()) return;
    needed = writing_ + asked_;
  }
  const bool has_space = CheckSpace(directory_, needed).ok();
  std::lock_guard lock(mutex_);
  if (has_space && refusal_ == Refusal::kPlace) Accept();
}

StoreUse StoreSpace::use() const {
  std::lock_guard lock(mutex_);
  return {.used_bytes = used_,
          .quota_bytes = quota_,
          .refuses = refusal_ != Refusal::kNone,
          .reason = reason_};
}

}  // namespace rt
