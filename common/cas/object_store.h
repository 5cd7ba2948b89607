// Where whole objects lie under names: what a directory, memory and an S3-compatible bucket have in
// common. Blob stores and the shipped journal stand on it. One contract
// (tests/contract/object_store_suite.h) for every implementation. Thread-safe; calls block.
//   A key is one or more components of [A-Za-z0-9._-], none "." or "..", with '/' between them.
//   What a write returned OK for is durable and seen by every later call of anyone.
//   An object is whole or absent: no reader sees a part of one.
//   Unavailable and DeadlineExceeded from a write leave it open whether it was done: read the key
// to know. ResourceExhausted: no space; PermissionDenied: credentials, with what to do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"

namespace rt {

struct ObjectInfo {
  std::string key;
  Bytes bytes = 0;
  Millis changed_at = 0;  // By the store's own clock.
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  // AlreadyExists when the key is taken, be it by equal bytes. Of several at once exactly one
  // succeeds: it is the fence of the shipped journal.
  virtual absl::Status PutIfAbsent(const std::string& key, std::string_view bytes) = 0;
  virtual absl::Status Put(const std::string& key, std::string_view bytes) = 0;  // Replaces.
  virtual absl::StatusOr<std::string> Get(const std::string& key) = 0;  // NotFound when absent.
  // Exactly `size` bytes; OutOfRange when the object ends before.
  virtual absl::StatusOr<std::string> GetRange(const std::string& key, Bytes offset,
                                               Bytes size) = 0;
  virtual absl::StatusOr<std::optional<ObjectInfo>> Look(const std::string& key) = 0;
  // At most `count_max` objects whose keys begin with `prefix` and are greater than `after`,
  // ascending by key; fewer than that many only at the end.
  virtual absl::StatusOr<std::vector<ObjectInfo>> List(const std::string& prefix,
                                                       const std::string& after,
                                                       size_t count_max) = 0;
  virtual absl::Status Delete(const std::string& key) = 0;  // OK when absent.
};

// InvalidArgument unless the key is well formed.
absl::Status CheckObjectKey(std::string_view key);
// Writes, reads, lists and deletes an object of its own: what is wrong with permissions, or with a
// service that takes conditional writes for plain ones, shows at once and not in a search's midst.
absl::Status ProbeObjects(ObjectStore& store);

}  // namespace rt
