#include "worker/notice/metadata.h"

#include "absl/status/status.h"

namespace rt::worker {

constexpr Bytes kAnswerBytesMax = 256 << 10;

absl::StatusOr<HttpAnswer> Metadata::Do(HttpRequest request) {
  request.connect_timeout = 1'000;
  request.stall_timeout = 0;
  request.answer_bytes_max = kAnswerBytesMax;
  request.direct = true;
  absl::StatusOr<HttpAnswer> answer = http_.Do(request);
  if (!answer.ok()) return answer;
  if (answer->status == 200 || answer->status == 401 || answer->status == 404) return answer;
  return absl::UnavailableError(request.url + " answered " + std::to_string(answer->status));
}

absl::StatusOr<HttpAnswer> Metadata::Get(const std::string& path, Headers headers,
                                         Millis timeout) {
  return Do({.url = base_ + path, .headers = std::move(headers), .timeout = timeout});
}

absl::StatusOr<HttpAnswer> Metadata::Send(const std::string& method, const std::string& path,
                                          Headers headers, const std::string& body) {
  return Do({.method = method,
             .url = base_ + path,
             .headers = std::move(headers),
             .body = body,
             .timeout = kTimeout});
}

}  // namespace rt::worker
