#include "common/cas/retry_objects.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/run/clock.h"
#include "common/run/random.h"

namespace rt {
namespace {

const absl::Status& StatusIn(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusIn(const absl::StatusOr<T>& result) {
  return result.status();
}

bool IsOpen(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

RetryObjects::RetryObjects(ObjectStore& below, RetryPolicy policy,
                           std::function<void(Millis)> sleep)
    : below_(below), policy_(policy), sleep_(sleep ? std::move(sleep) : SleepFor),
      rng_(std::stoull(RandomHex(8), nullptr, 16)) {}

void RetryObjects::Wait(int attempt) {
  const Millis bound = std::min(policy_.cap, policy_.base << std::min(attempt, 20));
  Millis wait = 0;
  {
    std::lock_guard lock(mutex_);
    wait = static_cast<Millis>(rng_.Below(static_cast<uint64_t>(std::max<Millis>(bound, 1))));
  }
  sleep_(wait);
}

template <class Call>
auto RetryObjects::Repeat(Call call) -> decltype(call()) {
  for (int attempt = 0;; ++attempt) {
    auto result = call();
    if (!IsOpen(StatusIn(result)) || attempt + 1 >= policy_.attempts_max) return result;
    Wait(attempt);
  }
}

absl::Status RetryObjects::PutIfAbsent(const std::string& key, std::string_view bytes) {
  bool was_open = false;  // An earlier attempt may have made the object.
  return Repeat([&]() -> absl::Status {
    if (was_open) {
      auto there = below_.Get(key);
      if (there.ok())
        return *there == bytes ? absl::OkStatus()
                               : absl::AlreadyExistsError(ToAbsl("there is an object " + key));
      if (!absl::IsNotFound(there.status())) return there.status();
    }
    absl::Status status = below_.PutIfAbsent(key, bytes);
    if (IsOpen(status)) was_open = true;
    if (!was_open || !absl::IsAlreadyExists(status)) return status;
    // The attempt before arrived late, or somebody else came first: the next round reads it.
    return absl::UnavailableError(status.message());
  });
}

absl::Status RetryObjects::Put(const std::string& key, std::string_view bytes) {
  return Repeat([&] { return below_.Put(key, bytes); });
}

absl::StatusOr<std::string> RetryObjects::Get(const std::string& key) {
  return Repeat([&] { return below_.Get(key); });
}

absl::StatusOr<std::string> RetryObjects::GetRange(const std::string& key, Bytes offset,
                                                   Bytes size) {
  return Repeat([&] { return below_.GetRange(key, offset, size); });
}

absl::StatusOr<std::optional<ObjectInfo>> RetryObjects::Look(const std::string& key) {
  return Repeat([&] { return below_.Look(key); });
}

absl::StatusOr<std::vector<ObjectInfo>> RetryObjects::List(const std::string& prefix,
                                                           const std::string& after,
                                                           size_t count_max) {
  return Repeat([&] { return below_.List(prefix, after, count_max); });
}

absl::Status RetryObjects::Delete(const std::string& key) {
  return Repeat([&] { return below_.Delete(key); });
}

}  // namespace rt
