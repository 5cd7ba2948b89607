#include "common/base/json.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"

namespace rt {
namespace {

// Trailers have a bound of their own (kMetadataBytesMax in channel.cc); cut between characters.
std::string Cut(std::string text) {
  size_t end = limits::kReasonBytesMax;
  if (text.size() <= end) return text;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  return text;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  Json details = Json::MakeObject();
  if (std::string hint = HintOf(status); !hint.empty()) details.Set("hint", Cut(hint));
  if (Position position = PositionOf(status); position.line > 0 || !position.file.empty()) {
    details.Set("file", Cut(position.file));
    details.Set("line", position.line);
    details.Set("column", position.column);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), Cut(MessageOf(status)),
                      details.object().empty() ? "" : details.Dump());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // A server that ends cancels what it has not answered; who cancels a call does not ask.
  if (status.error_code() == grpc::StatusCode::CANCELLED)
    return absl::UnavailableError("the other side ended the call");
  absl::Status converted(static_cast<absl::StatusCode>(status.error_code()),
                         ToAbsl(status.error_message()));
  auto details = Json::Parse(status.error_details());
  if (!details.ok() || !details->is_object()) return converted;
  if (details->Find("line") != nullptr)
    converted = WithPosition(converted, {.file = details->GetString("file"),
                                         .line = static_cast<int>(details->GetInt("line")),
                                         .column = static_cast<int>(details->GetInt("column"))});
  return WithHint(converted, details->GetString("hint"));
}

}  // namespace rt
