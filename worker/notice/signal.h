// Notices that arrive as a signal to the daemon: SIGUSR1 from Slurm (--signal=B:USR1@120), SIGTERM
// from Slurm, Kubernetes or, where that was asked for, systemd. Say is thread-safe.
#pragma once

#include <mutex>

#include "worker/notice/notice_source.h"

namespace rt::worker {

class SignalNotices final : public NoticeSource {
 public:
  explicit SignalNotices(std::string name) : name_(std::move(name)) {}
  const char* name() const override { return name_.c_str(); }
  absl::StatusOr<std::optional<Notice>> Look(Millis now) override;
  Millis pause() const override { return 20; }
  void Say(Notice notice);

 private:
  const std::string name_;
  std::mutex mutex_;
  std::optional<Notice> notice_;
};

}  // namespace rt::worker
