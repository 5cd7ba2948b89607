#include "common/cas/s3_client.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "common/aws/endpoint.h"
#include "common/aws/xml_tree.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/object_store.h"

namespace rt {
namespace {

constexpr Bytes kS3AnswerBytesMax = Bytes{5} << 30;
constexpr Millis kSkewMax = 240'000;  // S3 takes 15 minutes; others less.
constexpr int kSendsMax = 4;          // One, and one for each way of healing.

Millis WallClock() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The code when the answer has no body (HEAD), or none of S3's.
absl::StatusCode CodeOfHttp(int status) {
  if (status == 404) return absl::StatusCode::kNotFound;
  if (status == 401 || status == 403) return absl::StatusCode::kPermissionDenied;
  if (status == 412) return absl::StatusCode::kAlreadyExists;
  if (status == 416) return absl::StatusCode::kOutOfRange;
  if (status == 501) return absl::StatusCode::kUnimplemented;
  if (status == 507) return absl::StatusCode::kResourceExhausted;
  // A conflict with another conditional write: nothing was done, but who asks again must look.
  if (status == 408 || status == 409 || status == 429 || status >= 500)
    return absl::StatusCode::kUnavailable;
  return absl::StatusCode::kFailedPrecondition;
}

absl::StatusCode CodeOfS3(std::string_view code, int http_status) {
  if (IsOneOf(code, {"NoSuchKey", "NoSuchUpload"})) return absl::StatusCode::kNotFound;
  if (code == "PreconditionFailed") return absl::StatusCode::kAlreadyExists;
  if (code == "InvalidRange") return absl::StatusCode::kOutOfRange;
  if (code == "NotImplemented") return absl::StatusCode::kUnimplemented;
  if (IsOneOf(code, {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout",
                     "OperationAborted", "ConditionalRequestConflict", "Throttling"}))
    return absl::StatusCode::kUnavailable;
  if (IsOneOf(code, {"QuotaExceeded", "XMinioStorageFull", "EntityTooLarge"}))
    return absl::StatusCode::kResourceExhausted;
  if (IsOneOf(code, {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken",
                     "InvalidToken", "RequestTimeTooSkewed", "AllAccessDisabled"}))
    return absl::StatusCode::kPermissionDenied;
  if (IsOneOf(code, {"NoSuchBucket", "PermanentRedirect", "InvalidBucketName"}))
    return absl::StatusCode::kFailedPrecondition;
  return CodeOfHttp(http_status);
}

std::string HintFor(std::string_view code, int http_status, const S3Location& location) {
  const std::string where =
      location.bucket + "/" + location.prefix + (location.prefix.empty() ? "*" : "/*");
  if (code == "NoSuchBucket")
    return "create the bucket " + location.bucket + ", or correct the name and the endpoint";
  if (IsOneOf(code, {"InvalidAccessKeyId", "SignatureDoesNotMatch"}))
    return "the access key or its secret is wrong: check the credentials that the head uses";
  if (IsOneOf(code, {"ExpiredToken", "InvalidToken"}))
    return "the session token has expired: renew the credentials that the head uses";
  if (code == "RequestTimeTooSkewed") return "set this machine's clock";
  if (http_status == 403 || http_status == 401)
    return "allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload on " +
           where + ", and s3:ListBucket on " + location.bucket;
  if (http_status == 301 || http_status == 307)
    return "the bucket is in another region: set AWS_REGION";
  return "";
}

}  // namespace

absl::StatusOr<S3Location> ParseS3Location(std::string_view url, std::string_view endpoint,
                                           std::string_view region,
                                           const Environment& environment) {
  constexpr std::string_view kHint = "write it as s3://bucket/prefix";
  if (!url.starts_with("s3://"))
    return Invalid("'" + EscapeControl(url) + "' is no S3 location", kHint);
  url.remove_prefix(5);
  S3Location location;
  location.bucket = std::string(url.substr(0, url.find('/')));
  location.prefix = std::string(url.substr(std::min(url.size(), location.bucket.size() + 1)));
  while (location.prefix.ends_with('/')) location.prefix.pop_back();
  if (location.bucket.size() < 3 || location.bucket.size() > 63 ||
      !CheckObjectKey(location.bucket).ok())
    return Invalid("'" + EscapeControl(location.bucket) + "' is no name of a bucket", kHint);
  if (!location.prefix.empty()) RT_RETURN_IF_ERROR(CheckObjectKey(location.prefix));
  RT_ASSIGN_OR_RETURN(
      AwsEndpoint found,
      FindAwsEndpoint({.service = "S3", .url = endpoint, .region = region}, environment));
  location.region = std::move(found.region);
  location.endpoint = std::move(found.url);
  return location;
}

S3Client::S3Client(HttpClient& http, CredentialChain& credentials, S3Location location,
                   std::function<Millis()> clock)
    : http_(http),
      credentials_(credentials),
      location_(std::move(location)),
      clock_(clock ? std::move(clock) : WallClock),
      region_(location_.region) {}

std::string S3Client::FullKey(const std::string& key) const {
  return location_.prefix.empty() ? key : location_.prefix + "/" + key;
}

// The bucket is part of the host at AWS, unless its name has a dot, which no certificate covers;
// elsewhere it stands in the path.
S3Client::Place S3Client::PlaceOf(const S3Call& call) {
  Place place;
  {
    std::lock_guard lock(mutex_);
    place.region = region_;
  }
  const std::string object = call.key.empty() ? "" : FullKey(call.key);
  const bool https = !location_.endpoint.starts_with("http://");
  if (!location_.endpoint.empty()) {
    place.host = HostOfUrl(location_.endpoint);
  } else {
    place.host = "s3." + place.region + ".amazonaws.com" +
                 (place.region.starts_with("cn-") ? ".cn" : "");
  }
  const bool in_host =
      location_.endpoint.empty() && location_.bucket.find('.') == std::string::npos;
  if (in_host) place.host = location_.bucket + "." + place.host;
  place.path = in_host ? "/" + object
                       : "/" + location_.bucket + (object.empty() ? "" : "/" + object);
  place.origin = (https ? "https://" : "http://") + place.host;
  return place;
}

absl::StatusOr<HttpAnswer> S3Client::Send(const S3Call& call, const std::string& payload_hash) {
  Millis now = clock_();
  RT_ASSIGN_OR_RETURN(AwsCredentials credentials, credentials_.Get(now));
  {
    std::lock_guard lock(mutex_);
    now += skew_;
  }
  const Place place = PlaceOf(call);
  SignedRequest request{.method = call.method, .host = place.host, .path = place.path,
                        .query = call.query, .headers = call.headers,
                        .payload_hash = payload_hash};
  request.headers.emplace_back("x-amz-content-sha256", payload_hash);
  return http_.Do(
      {.method = call.method,
       .url = place.origin + RequestTarget(request),
       .headers = SignRequest(request, {.region = place.region, .at = now}, credentials),
       .body = call.body,
       .answer_bytes_max = kS3AnswerBytesMax});
}

// Whether something was changed that may make the same call succeed.
bool S3Client::Heal(const S3Call& call, const HttpAnswer& answer) {
  const XmlNode error = ParseXmlOrNothing(answer.body);
  const std::string code = error.AnyText("Code");
  const Millis theirs = ParseHttpDate(answer.Header("date"));
  std::lock_guard lock(mutex_);
  const Millis skew = theirs == 0 ? skew_ : theirs - clock_();
  if ((answer.status == 403 || code == "RequestTimeTooSkewed") &&
      std::abs(skew - skew_) > kSkewMax) {
    RT_LOG(kWarning) << "this machine's clock is " << -skew / 1000
                     << " s ahead of the object store's: requests are signed with its time";
    skew_ = skew;
    return true;
  }
  // A HEAD has no body to say why.
  const bool unexplained = call.method == "HEAD" && (answer.status == 400 || answer.status == 403);
  if (unexplained || IsOneOf(code, {"ExpiredToken", "TokenRefreshRequired", "InvalidToken"})) {
    credentials_.Expire();
    return true;
  }
  std::string region = answer.Header("x-amz-bucket-region");
  if (region.empty()) region = error.AnyText("Region");
  const bool elsewhere = answer.status == 301 || answer.status == 307 ||
                         code == "AuthorizationHeaderMalformed";
  if (!elsewhere || region.empty() || region == region_) return false;
  region_ = region;
  return true;
}

absl::StatusOr<HttpAnswer> S3Client::Do(const S3Call& call) {
  const std::string payload_hash = Sha256Hex(call.body);
  for (int sends = 1;; ++sends) {
    auto answer = Send(call, payload_hash);
    if (!answer.ok()) return Annotate(answer.status(), "s3://" + location_.bucket);
    if (answer->status >= 200 && answer->status < 300) return answer;
    if (sends < kSendsMax && Heal(call, *answer)) continue;
    // The first of two sends may have made the object that is in the way of the second.
    if (answer->status == 412 && answer->times_sent > 1)
      return absl::UnavailableError(ToAbsl("s3://" + location_.bucket + "/" + FullKey(call.key) +
                                           ": the connection broke while it was written"));
    return StatusOf(call, answer->status, answer->body);
  }
}

absl::Status S3Client::StatusOf(const S3Call& call, int http_status, std::string_view xml) const {
  const XmlNode error = ParseXmlOrNothing(xml);
  const std::string code = error.AnyText("Code");
  std::string message = call.method + " s3://" + location_.bucket + "/" +
                        (call.key.empty() ? location_.prefix : FullKey(call.key)) + ": " +
                        std::to_string(http_status);
  if (!code.empty()) message += " " + EscapeControl(code);
  if (std::string text = error.AnyText("Message"); !text.empty())
    message += ": " + EscapeControl(text.substr(0, 300));
  absl::Status status(code.empty() ? CodeOfHttp(http_status) : CodeOfS3(code, http_status),
                      ToAbsl(message));
  const std::string hint = HintFor(code, http_status, location_);
  return hint.empty() ? status : WithHint(status, hint);
}

}  // namespace rt
