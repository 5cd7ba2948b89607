// LimitObjects: an object store that takes no more than so many calls at once and so many bytes a
// second, reads and writes together, so that checkpoints leave room for others on a line. A call
// waits before it moves bytes until those that moved before have had their time; reads are charged
// when their size is known. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "common/cas/object_store.h"

namespace rt {

struct ObjectLimits {
  Bytes bytes_per_second = 0;  // 0: no bound.
  size_t calls_at_once = 0;    // The same.
};

class LimitObjects : public ObjectStore {
 public:
  // `clock` and `sleep` in milliseconds; the steady clock and real sleep when absent.
  LimitObjects(ObjectStore& below, ObjectLimits limits, std::function<Millis()> clock = nullptr,
               std::function<void(Millis)> sleep = nullptr);

  absl::Status PutIfAbsent(const std::string& key, std::string_view bytes) override;
  absl::Status Put(const std::string& key, std::string_view bytes) override;
  absl::StatusOr<std::string> Get(const std::string& key) override;
  absl::StatusOr<std::string> GetRange(const std::string& key, Bytes offset, Bytes size) override;
  absl::StatusOr<std::optional<ObjectInfo>> Look(const std::string& key) override;
  absl::StatusOr<std::vector<ObjectInfo>> List(const std::string& prefix, const std::string& after,
                                               size_t count_max) override;
  absl::Status Delete(const std::string& key) override;

 private:
  class Slot;
  void Charge(size_t bytes);

  ObjectStore& below_;
  const ObjectLimits limits_;
  const std::function<Millis()> clock_;
  const std::function<void(Millis)> sleep_;
  std::mutex mutex_;
  std::condition_variable free_;
  size_t calls_ = 0;
  double free_at_ = 0;  // When what was charged so far has had its time.
};

}  // namespace rt
