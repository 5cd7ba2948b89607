// RetryObjects: an object store whose calls are repeated while the one below says Unavailable or
// DeadlineExceeded, with full jitter (a wait drawn from [0, min(cap, base * 2^n))), at most so
// many times. A PutIfAbsent that was left open is settled by reading: equal bytes are ours, so what
// several writers race for must differ between them. Thread-safe if the store below is.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/cas/object_store.h"

namespace rt {

struct RetryPolicy {
  int attempts_max = 8;
  Millis base = 100;
  Millis cap = 10'000;  // With 8 attempts: half a minute at most, a quarter on average.
};

class RetryObjects : public ObjectStore {
 public:
  // `sleep` waits so many ms; real sleep when absent.
  explicit RetryObjects(ObjectStore& below, RetryPolicy policy = {},
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
  template <class Call>
  auto Repeat(Call call) -> decltype(call());
  void Wait(int attempt);

  ObjectStore& below_;
  const RetryPolicy policy_;
  const std::function<void(Millis)> sleep_;
  std::mutex mutex_;
  Rng rng_;
};

}  // namespace rt
