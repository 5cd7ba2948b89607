#include "common/base/status.h"

#include <cerrno>
#include <cstring>
#include <string>

namespace rt {
namespace {

constexpr char kHintUrl[] = "rt/hint";
constexpr char kPositionUrl[] = "rt/position";

std::string PayloadOf(const absl::Status& status, const char* url) {
  auto payload = status.GetPayload(url);
  return payload.has_value() ? std::string(*payload) : "";
}

}  // namespace

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(),
                         ToAbsl(std::string(context) + ": " + MessageOf(status)));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

absl::Status WithHint(absl::Status status, std::string_view hint) {
  if (!hint.empty() && !status.ok()) status.SetPayload(kHintUrl, absl::Cord(ToAbsl(hint)));
  return status;
}

std::string HintOf(const absl::Status& status) { return PayloadOf(status, kHintUrl); }

absl::Status WithPosition(absl::Status status, const Position& position) {
  if (status.ok()) return status;
  status.SetPayload(kPositionUrl, absl::Cord(std::to_string(position.line) + ":" +
                                             std::to_string(position.column) + ":" +
                                             position.file));
  return status;
}

Position PositionOf(const absl::Status& status) {
  std::string text = PayloadOf(status, kPositionUrl);
  size_t first = text.find(':');
  if (first == std::string::npos) return {};
  size_t second = text.find(':', first + 1);
  if (second == std::string::npos) return {};
  return {.file = text.substr(second + 1),
          .line = std::atoi(text.c_str()),
          .column = std::atoi(text.c_str() + first + 1)};
}

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status);
}

absl::Status Invalid(std::string_view message, std::string_view hint) {
  return WithHint(absl::InvalidArgumentError(ToAbsl(message)), hint);
}

absl::Status NotFound(std::string_view message, std::string_view hint) {
  return WithHint(absl::NotFoundError(ToAbsl(message)), hint);
}

absl::Status ErrnoStatus(int error_number, std::string_view what) {
  absl::StatusCode code = absl::ErrnoToStatusCode(error_number);
  if (error_number == ENOSPC || error_number == EDQUOT)
    code = absl::StatusCode::kResourceExhausted;
  return absl::Status(code, ToAbsl(std::string(what) + ": " + std::strerror(error_number)));
}

}  // namespace rt
