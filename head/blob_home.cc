#include "head/blob_home.h"

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/cache_objects.h"
#include "common/cas/dir_objects.h"
#include "common/cas/dir_store.h"
#include "common/cas/limit_objects.h"
#include "common/cas/pack_store.h"
#include "common/cas/retry_objects.h"
#include "common/cas/s3_objects.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr char kClusterKey[] = "cluster";
constexpr size_t kBucketCallsMax = 32;  // S3 gives each about 90 MB/s.
// Many workers pull the same bundle at the same time.
constexpr Bytes kCacheBytes = Bytes{128} << 20;

bool NeverChanges(const std::string& key) {
  return key.starts_with("chunks/") || key.starts_with("packs/") || key.starts_with("manifests/");
}

absl::Status Claim(ObjectStore& objects, const std::string& cluster_id) {
  absl::Status claimed = objects.PutIfAbsent(kClusterKey, cluster_id);
  if (!absl::IsAlreadyExists(claimed)) return claimed;
  RT_ASSIGN_OR_RETURN(std::string owner, objects.Get(kClusterKey));
  if (owner == cluster_id) return absl::OkStatus();
  return WithHint(absl::FailedPreconditionError(
                      ToAbsl("the place belongs to the cluster " + EscapeControl(owner))),
                  "choose another directory or prefix for checkpoint_store");
}

absl::Status OpenBucket(const StoreConfig& config, OpenedBlobs& opened) {
  const Environment environment = ProcessEnvironment();
  RT_ASSIGN_OR_RETURN(S3Location location, ParseS3Location(config.url, config.endpoint,
                                                           config.region, environment));
  opened.http = std::make_unique<HttpClient>();
  opened.credentials = std::make_unique<CredentialChain>(*opened.http, environment);
  opened.client = std::make_unique<S3Client>(*opened.http, *opened.credentials, location);
  opened.objects = std::make_unique<S3Objects>(*opened.client);
  opened.limited = std::make_unique<LimitObjects>(
      *opened.objects, ObjectLimits{.bytes_per_second = config.bytes_per_second,
                                    .calls_at_once = kBucketCallsMax});
  opened.retried = std::make_unique<RetryObjects>(*opened.limited);
  opened.cached = std::make_unique<CacheObjects>(*opened.retried, kCacheBytes, NeverChanges);
  return absl::OkStatus();
}

absl::Status OpenDirectory(const StoreConfig& config, OpenedBlobs& opened) {
  RT_ASSIGN_OR_RETURN(opened.objects, DirObjects::Open(config.url));
  opened.retried = std::make_unique<RetryObjects>(*opened.objects);
  return absl::OkStatus();
}

// On whose file system the place lies: nothing for a bucket.
std::string DirectoryOf(const StoreConfig& config) {
  return config.url.starts_with("s3://") ? "" : config.url;
}

absl::Status OpenPlace(const StoreConfig& config, const std::string& cluster_id,
                       OpenedBlobs& opened) {
  RT_RETURN_IF_ERROR(config.url.starts_with("s3://") ? OpenBucket(config, opened)
                                                     : OpenDirectory(config, opened));
  ObjectStore& objects = opened.cached ? *opened.cached : *opened.retried;
  RT_RETURN_IF_ERROR(ProbeObjects(objects));
  RT_RETURN_IF_ERROR(Claim(objects, cluster_id));
  RT_ASSIGN_OR_RETURN(opened.store, PackStore::Open(
      objects, PackOptions{.quota = config.quota, .directory = DirectoryOf(config)}));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenedBlobs> OpenBlobs(const StoreConfig& config, const std::string& state_dir,
                                      const std::string& cluster_id) {
  OpenedBlobs opened;
  const std::string own = state_dir + "/blobs";
  if (config.url.empty()) {
    RT_ASSIGN_OR_RETURN(opened.store, DirStore::Open(own, config.quota));
    return opened;
  }
  absl::Status status = OpenPlace(config, cluster_id, opened);
  if (!status.ok()) return Annotate(status, "checkpoint_store " + config.url);
  if (Exists(own + "/manifests")) {
    RT_LOG(kWarning) << "what this cluster stored in " << own << " before it had a "
                     << "checkpoint_store is not in " << config.url;
  }
  return opened;
}

}  // namespace rt
