#include "worker/notice/signal.h"

namespace rt::worker {

absl::StatusOr<std::optional<Notice>> SignalNotices::Look(Millis) {
  std::lock_guard lock(mutex_);
  return notice_;
}

void SignalNotices::Say(Notice notice) {
  std::lock_guard lock(mutex_);
  notice_ = std::move(notice);
}

}  // namespace rt::worker
