// S3Objects: an object store in a bucket of AWS S3 or of a service that speaks its protocol (MinIO,
// Ceph, R2). PutIfAbsent is a conditional write (If-None-Match: *); large objects travel as
// multipart uploads, which are aborted when they fail. Calls are not repeated here: see
// retry_objects.h. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/cas/object_store.h"
#include "common/cas/s3_client.h"

namespace rt {

struct S3Sizes {
  Bytes multipart_above = Bytes{64} << 20;
  Bytes part_bytes = Bytes{16} << 20;  // 5 MiB at least, but for the last one.
  size_t parts_at_once = 4;
};

class S3Objects : public ObjectStore {
 public:
  explicit S3Objects(S3Client& client, S3Sizes sizes = {}) : client_(client), sizes_(sizes) {}

  absl::Status PutIfAbsent(const std::string& key, std::string_view bytes) override;
  absl::Status Put(const std::string& key, std::string_view bytes) override;
  absl::StatusOr<std::string> Get(const std::string& key) override;
  absl::StatusOr<std::string> GetRange(const std::string& key, Bytes offset, Bytes size) override;
  absl::StatusOr<std::optional<ObjectInfo>> Look(const std::string& key) override;
  absl::StatusOr<std::vector<ObjectInfo>> List(const std::string& prefix, const std::string& after,
                                               size_t count_max) override;
  absl::Status Delete(const std::string& key) override;

 private:
  using Headers = std::vector<std::pair<std::string, std::string>>;
  absl::Status Write(const std::string& key, std::string_view bytes, const Headers& condition);
  absl::Status WriteParts(const std::string& key, std::string_view bytes, const Headers& condition);
  // Their ETags, in order.
  absl::StatusOr<std::vector<std::string>> SendParts(const std::string& key,
                                                     const std::string& upload,
                                                     std::string_view bytes);
  absl::Status Complete(const std::string& key, const std::string& upload,
                        const std::vector<std::string>& tags, const Headers& condition);

  S3Client& client_;
  const S3Sizes sizes_;
};

}  // namespace rt
