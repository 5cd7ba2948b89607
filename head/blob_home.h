// Which blob store the configuration asks for, opened. Used by main before the loop starts.
//   nothing            a DirStore in blobs/ of the state directory
//   a directory        a PackStore over DirObjects there, which may be a mounted file system
//   s3://bucket/prefix a PackStore over a bucket, with bounds, retries and a cache
// The place belongs to one cluster: its id lies there, and another one is refused, because each
// would sweep what the other's state does not name.
#pragma once

#include <memory>
#include <string>

#include "common/cas/blob_store.h"
#include "common/cas/object_store.h"
#include "common/cas/s3_client.h"
#include "head/config.h"

namespace rt {

// Each part stands on those before it.
struct OpenedBlobs {
  std::unique_ptr<HttpClient> http;
  std::unique_ptr<CredentialChain> credentials;
  std::unique_ptr<S3Client> client;
  std::unique_ptr<ObjectStore> objects;
  std::unique_ptr<ObjectStore> limited;
  std::unique_ptr<ObjectStore> retried;
  std::unique_ptr<ObjectStore> cached;
  std::unique_ptr<SweptStore> store;
};
// Writes a probe first: a wrong permission or endpoint shows here, and the error says what to do.
absl::StatusOr<OpenedBlobs> OpenBlobs(const StoreConfig& config, const std::string& state_dir,
                                      const std::string& cluster_id);

}  // namespace rt
