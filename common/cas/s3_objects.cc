#include "common/cas/s3_objects.h"

#include <algorithm>

#include "common/aws/xml_tree.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr size_t kPageMax = 1'000;

Bytes NumberOf(const std::string& text) {
  Bytes value = 0;
  for (char c : text) {
    if (c < '0' || c > '9' || value > INT64_MAX / 10 - 10) return -1;
    value = value * 10 + (c - '0');
  }
  return text.empty() ? -1 : value;
}

}  // namespace

absl::Status S3Objects::PutIfAbsent(const std::string& key, std::string_view bytes) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  return Write(key, bytes, {{"If-None-Match", "*"}});
}

absl::Status S3Objects::Put(const std::string& key, std::string_view bytes) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  return Write(key, bytes, {});
}

absl::Status S3Objects::Write(const std::string& key, std::string_view bytes,
                              const Headers& condition) {
  if (static_cast<Bytes>(bytes.size()) > sizes_.multipart_above)
    return WriteParts(key, bytes, condition);
  return client_.Do({.method = "PUT", .key = key, .headers = condition, .body = bytes}).status();
}

absl::StatusOr<std::string> S3Objects::Get(const std::string& key) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  RT_ASSIGN_OR_RETURN(HttpAnswer answer, client_.Do({.key = key}));
  return std::move(answer.body);
}

absl::StatusOr<std::string> S3Objects::GetRange(const std::string& key, Bytes offset, Bytes size) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  if (offset < 0 || size < 0) return Invalid("a negative range of " + key);
  auto too_short = [&] {
    return absl::OutOfRangeError(ToAbsl(key + " ends before " + std::to_string(size) +
                                        " bytes at " + std::to_string(offset)));
  };
  if (size == 0 || offset > INT64_MAX - size) {  // Nothing that a Range header could say.
    RT_ASSIGN_OR_RETURN(std::optional<ObjectInfo> info, Look(key));
    if (!info.has_value()) return NotFound("no object " + key);
    if (size > 0 || offset > info->bytes) return too_short();
    return std::string();
  }
  const std::string range =
      "bytes=" + std::to_string(offset) + "-" + std::to_string(offset + size - 1);
  auto answer = client_.Do({.key = key, .headers = {{"Range", range}}});
  if (absl::IsOutOfRange(answer.status())) return too_short();
  if (!answer.ok()) return answer.status();
  if (answer->status == 206) {
    if (static_cast<Bytes>(answer->body.size()) == size) return std::move(answer->body);
    return too_short();
  }
  // A server that knows no ranges sends everything.
  if (static_cast<Bytes>(answer->body.size()) < offset + size) return too_short();
  return answer->body.substr(static_cast<size_t>(offset), static_cast<size_t>(size));
}

absl::StatusOr<std::optional<ObjectInfo>> S3Objects::Look(const std::string& key) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  auto answer = client_.Do({.method = "HEAD", .key = key});
  if (absl::IsNotFound(answer.status())) return std::nullopt;
  if (!answer.ok()) return answer.status();
  const Bytes size = NumberOf(answer->Header("content-length"));
  if (size < 0) return absl::DataLossError(ToAbsl("HEAD " + key + ": no Content-Length"));
  return ObjectInfo{key, size, ParseHttpDate(answer->Header("last-modified"))};
}

absl::StatusOr<std::vector<ObjectInfo>> S3Objects::List(const std::string& prefix,
                                                        const std::string& after,
                                                        size_t count_max) {
  std::vector<ObjectInfo> listed;
  const std::string root = client_.FullKey("");
  std::string token;
  while (listed.size() < count_max) {
    S3Call call{.query = {{"list-type", "2"},
                          {"encoding-type", "url"},
                          {"max-keys", std::to_string(std::min(kPageMax,
                                                               count_max - listed.size()))},
                          {"prefix", root + prefix}}};
    if (!token.empty()) {
      call.query.emplace_back("continuation-token", token);
    } else if (!after.empty()) {
      call.query.emplace_back("start-after", root + after);
    }
    RT_ASSIGN_OR_RETURN(HttpAnswer answer, client_.Do(call));
    const XmlNode list = ParseXmlOrNothing(answer.body);
    if (list.name != "ListBucketResult")
      return absl::DataLossError(ToAbsl("the list of s3://" + client_.location().bucket +
                                        " is none: is the endpoint an S3 service?"));
    for (const XmlNode& entry : list.children) {
      std::string key = PercentDecode(entry.Text("Key"));
      if (entry.name != "Contents" || !key.starts_with(root)) continue;
      key.erase(0, root.size());
      // Somebody else's objects may lie there, too.
      if (!CheckObjectKey(key).ok() || key <= after) continue;
      listed.push_back(
          {std::move(key), NumberOf(entry.Text("Size")), ParseIsoTime(entry.Text("LastModified"))});
    }
    token = list.Text("NextContinuationToken");
    if (list.Text("IsTruncated") != "true" || token.empty()) break;
  }
  return listed;
}

absl::Status S3Objects::Delete(const std::string& key) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  absl::Status status = client_.Do({.method = "DELETE", .key = key}).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace rt
