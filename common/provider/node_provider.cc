#include "common/provider/node_provider.h"

#include "absl/strings/cord.h"
#include "common/base/status.h"

namespace rt {
namespace {

constexpr char kErrorPayload[] = "rt/provider-error";

absl::StatusCode CodeOf(ProviderError error) {
  switch (error) {
    case ProviderError::kCapacity:
    case ProviderError::kQuota: return absl::StatusCode::kResourceExhausted;
    case ProviderError::kBadConfiguration: return absl::StatusCode::kInvalidArgument;
    case ProviderError::kNotOurs: return absl::StatusCode::kPermissionDenied;
    case ProviderError::kRetryLater:
    case ProviderError::kNone: break;
  }
  return absl::StatusCode::kUnavailable;
}

}  // namespace

absl::Status MakeProviderError(ProviderError error, const std::string& message,
                               const std::string& hint) {
  absl::Status status(CodeOf(error), ToAbsl(message));
  if (!hint.empty()) status = WithHint(std::move(status), hint);
  status.SetPayload(kErrorPayload, absl::Cord(std::to_string(static_cast<uint32_t>(error))));
  return status;
}

ProviderError ProviderErrorOf(const absl::Status& status) {
  if (status.ok()) return ProviderError::kNone;
  const auto payload = status.GetPayload(kErrorPayload);
  if (!payload.has_value()) return ProviderError::kRetryLater;
  return static_cast<ProviderError>(std::stoul(std::string(*payload)));
}

}  // namespace rt
