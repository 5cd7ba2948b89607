// Google Compute Engine: instance/preempted turns TRUE; the server holds the request until then.
// https://cloud.google.com/compute/docs/instances/spot#preemption-process
#pragma once

#include "worker/notice/metadata.h"
#include "worker/notice/notice_source.h"

namespace rt::worker {

class GcpNotices final : public NoticeSource {
 public:
  static constexpr char kBase[] = "http://metadata.google.internal";

  explicit GcpNotices(std::string base) : metadata_(std::move(base)) {}
  const char* name() const override { return "gcp"; }
  absl::StatusOr<std::optional<Notice>> Look(Millis now) override;
  Millis pause() const override { return since_ == 0 ? 0 : 1'000; }

 private:
  Metadata metadata_;
  std::string etag_;  // Of the last answer: the next request waits for another.
  Millis since_ = 0;  // When it first said TRUE; 0: it says FALSE.
};

}  // namespace rt::worker
