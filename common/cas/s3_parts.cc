#include <algorithm>

#include "common/aws/xml_tree.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/cas/parallel.h"
#include "common/cas/s3_objects.h"

namespace rt {
namespace {

constexpr int kPartAttempts = 3;  // A part that fails now and then must not cost the others.

}  // namespace

absl::Status S3Objects::WriteParts(const std::string& key, std::string_view bytes,
                                   const Headers& condition) {
  if (!condition.empty()) {
    // The condition is checked at the end only: an object that is there saves the way.
    RT_ASSIGN_OR_RETURN(std::optional<ObjectInfo> there, Look(key));
    if (there.has_value())
      return absl::AlreadyExistsError(ToAbsl("there is an object " + key));
  }
  RT_ASSIGN_OR_RETURN(HttpAnswer begun, client_.Do({.method = "POST", .key = key,
                                                    .query = {{"uploads", ""}}}));
  const std::string upload = ParseXmlOrNothing(begun.body).Text("UploadId");
  if (upload.empty())
    return absl::UnavailableError(ToAbsl("a multipart upload of " + key + " got no UploadId"));
  auto tags = SendParts(key, upload, bytes);
  absl::Status status = tags.ok() ? Complete(key, upload, *tags, condition) : tags.status();
  if (status.ok()) return status;
  // Parts that nobody completes would lie there, and cost, for ever.
  absl::Status aborted =
      client_.Do({.method = "DELETE", .key = key, .query = {{"uploadId", upload}}}).status();
  if (!aborted.ok() && !absl::IsNotFound(aborted)) {
    RT_LOG(kWarning) << "the parts of a failed upload were left behind: " << MessageOf(aborted);
  }
  return status;
}

absl::StatusOr<std::vector<std::string>> S3Objects::SendParts(const std::string& key,
                                                              const std::string& upload,
                                                              std::string_view bytes) {
  // At most 10 000 parts.
  const size_t size = std::max(static_cast<size_t>(sizes_.part_bytes), bytes.size() / 9'999);
  const size_t count = (bytes.size() + size - 1) / size;
  std::vector<std::string> tags(count);
  absl::Status sent = ForEachParallel(count, sizes_.parts_at_once, [&](size_t i) -> absl::Status {
    absl::StatusOr<HttpAnswer> answer;
    for (int attempt = 0; attempt < kPartAttempts; ++attempt) {
      answer = client_.Do({.method = "PUT", .key = key,
                           .query = {{"partNumber", std::to_string(i + 1)}, {"uploadId", upload}},
                           .body = bytes.substr(i * size, size)});
      if (!absl::IsUnavailable(answer.status()) && !absl::IsDeadlineExceeded(answer.status()))
        break;
    }
    RT_RETURN_IF_ERROR(answer.status());
    tags[i] = answer->Header("etag");
    return tags[i].empty() ? absl::UnavailableError("a part without an ETag") : absl::OkStatus();
  });
  if (!sent.ok()) return sent;
  return tags;
}

absl::Status S3Objects::Complete(const std::string& key, const std::string& upload,
                                 const std::vector<std::string>& tags, const Headers& condition) {
  std::string list = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < tags.size(); ++i)
    list += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + tags[i] +
            "</ETag></Part>";
  list += "</CompleteMultipartUpload>";
  S3Call call{.method = "POST", .key = key, .query = {{"uploadId", upload}}, .headers = condition,
              .body = list};
  call.headers.emplace_back("Content-Type", "application/xml");
  RT_ASSIGN_OR_RETURN(HttpAnswer answer, client_.Do(call));
  // S3 says 200 early to keep the connection, and may find out later that it failed.
  const std::string answered = ParseXmlOrNothing(answer.body).name;
  if (answered == "Error") return client_.StatusOf(call, 500, answer.body);
  if (answered != "CompleteMultipartUploadResult")
    return absl::UnavailableError(ToAbsl("the upload of " + key + " ended without an answer"));
  return absl::OkStatus();
}

}  // namespace rt
