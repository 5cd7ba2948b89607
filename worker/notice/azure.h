// Azure scheduled events: Preempt, Terminate, Reboot and Redeploy of this machine. Freeze only
// pauses it. Acknowledged once nothing runs here: Azure need not wait until NotBefore then.
// https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
#pragma once

#include <set>

#include "common/base/json.h"
#include "worker/notice/metadata.h"
#include "worker/notice/notice_source.h"

namespace rt::worker {

class AzureNotices final : public NoticeSource {
 public:
  static constexpr char kBase[] = "http://169.254.169.254";

  explicit AzureNotices(std::string base) : metadata_(std::move(base)) {}
  const char* name() const override { return "azure"; }
  absl::StatusOr<std::optional<Notice>> Look(Millis now) override;
  Millis pause() const override { return 1'000; }
  absl::Status Acknowledge() override;

 private:
  absl::Status FindName();

  Metadata metadata_;
  std::string machine_;  // As Azure names it.
  std::set<std::string> standing_;  // Events that concern us.
  std::set<std::string> acknowledged_;
};

struct AzureEvents {
  std::optional<Notice> notice;  // The first to come.
  std::set<std::string> ids;
};
// The body of scheduledevents, for the machine of this name.
absl::StatusOr<AzureEvents> ParseAzureEvents(const std::string& body, const std::string& machine);

}  // namespace rt::worker
