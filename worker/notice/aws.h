// Amazon EC2 (IMDSv2): spot/instance-action, two minutes ahead at best, and, unless it is left out,
// the rebalance recommendation, which comes earlier and names no time. It is read once a second.
// The metadata address answers within the machine and allows some hundred requests a second.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
#pragma once

#include "worker/notice/metadata.h"
#include "worker/notice/notice_source.h"

namespace rt::worker {

class AwsNotices final : public NoticeSource {
 public:
  static constexpr char kBase[] = "http://169.254.169.254";

  AwsNotices(std::string base, bool heeds_rebalance)
      : metadata_(std::move(base)), heeds_rebalance_(heeds_rebalance) {}
  const char* name() const override { return "aws"; }
  absl::StatusOr<std::optional<Notice>> Look(Millis now) override;
  Millis pause() const override { return 250; }

 private:
  // The body; nullopt for 404. A token that is refused is asked for anew, once.
  absl::StatusOr<std::optional<std::string>> Read(const std::string& path, Millis now);
  absl::Status Renew(Millis now);
  absl::StatusOr<bool> HasAdvice(Millis now);

  Metadata metadata_;
  const bool heeds_rebalance_;
  std::string token_;
  Millis renew_at_ = 0;
  bool has_advice_ = false;  // When it was last asked for,
  Millis advised_at_ = 0;    // then.
};

// The body of spot/instance-action.
absl::StatusOr<Notice> ParseAwsAction(const std::string& body);

}  // namespace rt::worker
