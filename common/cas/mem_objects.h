// MemObjects: an object store in memory, for tests and the simulator. Thread-safe. Its clock stands
// still until a test moves it.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/cas/object_store.h"

namespace rt {

class MemObjects : public ObjectStore {
 public:
  absl::Status PutIfAbsent(const std::string& key, std::string_view bytes) override;
  absl::Status Put(const std::string& key, std::string_view bytes) override;
  absl::StatusOr<std::string> Get(const std::string& key) override;
  absl::StatusOr<std::string> GetRange(const std::string& key, Bytes offset, Bytes size) override;
  absl::StatusOr<std::optional<ObjectInfo>> Look(const std::string& key) override;
  absl::StatusOr<std::vector<ObjectInfo>> List(const std::string& prefix, const std::string& after,
                                               size_t count_max) override;
  absl::Status Delete(const std::string& key) override;

  void Advance(Millis by);  // The store's clock.

 private:
  struct Object {
    std::string bytes;
    Millis changed_at = 0;
  };
  std::mutex mutex_;
  std::map<std::string, Object> objects_;
  Millis now_ = 1;
};

// The part of `bytes` that GetRange answers with, or its error.
absl::StatusOr<std::string> RangeOf(std::string_view bytes, const std::string& key, Bytes offset,
                                    Bytes size);

}  // namespace rt
