#include "common/cas/open_objects.h"

#include "common/base/status.h"
#include "common/cas/dir_objects.h"
#include "common/cas/retry_objects.h"
#include "common/cas/s3_objects.h"

namespace rt {
namespace {

constexpr std::string_view kFile = "file://";
constexpr RetryPolicy kRetries{.attempts_max = 4, .base = 50, .cap = 1'000};

// RetryObjects over a store that it owns together with what that one needs.
template <class Parts>
class Owned final : public RetryObjects {
 public:
  explicit Owned(std::unique_ptr<Parts> parts)
      : RetryObjects(parts->store(), kRetries), parts_(std::move(parts)) {}

 private:
  std::unique_ptr<Parts> parts_;
};

struct DirParts {
  std::unique_ptr<DirObjects> objects;
  ObjectStore& store() { return *objects; }
};

struct S3Parts {
  explicit S3Parts(S3Location location)
      : chain(http, ProcessEnvironment()), client(http, chain, std::move(location)),
        objects(client) {}
  HttpClient http;
  CredentialChain chain;
  S3Client client;
  S3Objects objects;
  ObjectStore& store() { return objects; }
};

std::string DirectoryOf(const std::string& url) {
  return url.starts_with(kFile) ? url.substr(kFile.size()) : url;
}

}  // namespace

absl::Status CheckObjectsUrl(const std::string& url) {
  if (url.starts_with("s3://")) return ParseS3Location(url, "", "", ProcessEnvironment()).status();
  if (DirectoryOf(url).starts_with("/")) return absl::OkStatus();
  return Invalid("'" + url + "' names no object store",
                 "write s3://bucket/prefix, or the absolute path of a directory");
}

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenObjects(const std::string& url) {
  RT_RETURN_IF_ERROR(CheckObjectsUrl(url));
  if (url.starts_with("s3://")) {
    RT_ASSIGN_OR_RETURN(S3Location location,
                        ParseS3Location(url, "", "", ProcessEnvironment()));
    return std::make_unique<Owned<S3Parts>>(std::make_unique<S3Parts>(std::move(location)));
  }
  auto parts = std::make_unique<DirParts>();
  RT_ASSIGN_OR_RETURN(parts->objects, DirObjects::Open(DirectoryOf(url)));
  return std::make_unique<Owned<DirParts>>(std::move(parts));
}

}  // namespace rt
