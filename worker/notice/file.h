// A file whose existence is the notice that this machine will be removed. Empty: no deadline. A
// JSON object may hold "deadline_s", counted from the file's time, and "reason"; any other text is
// the reason. When it is removed, it was a false alarm.
#pragma once

#include "worker/notice/notice_source.h"

namespace rt::worker {

class FileNotices final : public NoticeSource {
 public:
  explicit FileNotices(std::string path) : path_(std::move(path)) {}
  const char* name() const override { return "file"; }
  absl::StatusOr<std::optional<Notice>> Look(Millis now) override;
  Millis pause() const override { return 100; }

 private:
  const std::string path_;
};

}  // namespace rt::worker
