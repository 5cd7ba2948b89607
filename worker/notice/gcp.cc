#include "worker/notice/gcp.h"

#include "absl/status/status.h"
#include "common/base/strings.h"

namespace rt::worker {
namespace {

// From the notice to the end of the machine, where nothing longer was asked for.
constexpr Millis kGrace = 30'000;
constexpr int kHoldSeconds = 3;

}  // namespace

absl::StatusOr<std::optional<Notice>> GcpNotices::Look(Millis now) {
  std::string path = "/computeMetadata/v1/instance/preempted";
  if (!etag_.empty() && since_ == 0)
    path += "?wait_for_change=true&timeout_sec=" + std::to_string(kHoldSeconds) +
            "&last_etag=" + etag_;
  absl::StatusOr<HttpAnswer> answer = metadata_.Get(
      path, {{"Metadata-Flavor", "Google"}}, kHoldSeconds * 1'000 + 1'500);
  const std::string body = answer.ok() ? std::string(Trim(answer->body)) : "";
  // Something else may answer in place of Google's server; without a tag the next is no long poll.
  const bool is_sound = answer.ok() && answer->status == 200 &&
                        answer->Header("metadata-flavor") == "Google" &&
                        (body == "TRUE" || body == "FALSE");
  etag_ = is_sound ? answer->Header("etag") : "";
  if (!answer.ok()) return answer.status();
  if (!is_sound) return absl::UnavailableError("not an answer of Google's metadata server");
  if (body == "FALSE") {
    since_ = 0;
    return std::nullopt;
  }
  if (since_ == 0) since_ = now;
  return Notice{"preempted", since_ + kGrace};
}

}  // namespace rt::worker
