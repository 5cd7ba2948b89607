#include "worker/notice/aws.h"

#include "absl/status/status.h"
#include "common/base/json.h"
#include "common/base/status.h"

namespace rt::worker {
namespace {

constexpr Millis kTokenLasts = 21'600'000;
constexpr Millis kAdviceEvery = 1'000;

}  // namespace

absl::StatusOr<Notice> ParseAwsAction(const std::string& body) {
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(body));
  const std::string action = json.is_object() ? json.GetString("action") : "";
  const Millis at = ParseIsoTime(json.is_object() ? json.GetString("time") : "");
  if (action.empty() || at == 0) return Invalid("not an instance-action: " + body.substr(0, 200));
  return Notice{"spot interruption (" + action + ")", at};
}

absl::Status AwsNotices::Renew(Millis now) {
  RT_ASSIGN_OR_RETURN(HttpAnswer answer,
                      metadata_.Send("PUT", "/latest/api/token",
                                     {{"X-aws-ec2-metadata-token-ttl-seconds",
                                       std::to_string(kTokenLasts / 1'000)}}, ""));
  if (answer.status != 200 || answer.body.empty())
    return absl::UnavailableError("the metadata server gives no token");
  token_ = answer.body;
  renew_at_ = now + kTokenLasts / 2;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> AwsNotices::Read(const std::string& path, Millis now) {
  for (int tries = 0; tries < 2; ++tries) {
    if (token_.empty() || now >= renew_at_) RT_RETURN_IF_ERROR(Renew(now));
    RT_ASSIGN_OR_RETURN(HttpAnswer answer, metadata_.Get("/latest/meta-data/" + path,
                                                         {{"X-aws-ec2-metadata-token", token_}}));
    if (answer.status == 200) return answer.body;
    if (answer.status == 404) return std::nullopt;
    token_.clear();
  }
  return absl::UnavailableError("the metadata server refuses its own token");
}

absl::StatusOr<std::optional<Notice>> AwsNotices::Look(Millis now) {
  RT_ASSIGN_OR_RETURN(std::optional<std::string> action, Read("spot/instance-action", now));
  if (action) return ParseAwsAction(*action);
  if (!heeds_rebalance_) return std::nullopt;
  if (advised_at_ == 0 || now < advised_at_ || now - advised_at_ >= kAdviceEvery) {
    RT_ASSIGN_OR_RETURN(has_advice_, HasAdvice(now));
    advised_at_ = now;
  }
  if (!has_advice_) return std::nullopt;
  return Notice{"rebalance recommendation", 0};
}

absl::StatusOr<bool> AwsNotices::HasAdvice(Millis now) {
  RT_ASSIGN_OR_RETURN(std::optional<std::string> advice,
                      Read("events/recommendations/rebalance", now));
  if (!advice) return false;
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(*advice));
  if (!json.is_object() || json.GetString("noticeTime").empty())
    return Invalid("not a rebalance recommendation: " + advice->substr(0, 200));
  return true;
}

}  // namespace rt::worker
