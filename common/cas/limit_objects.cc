#include "common/cas/limit_objects.h"

#include <algorithm>
#include <cmath>

#include "common/run/clock.h"

namespace rt {
namespace {

size_t SizeOf(const absl::StatusOr<std::string>& bytes) { return bytes.ok() ? bytes->size() : 0; }

}  // namespace

// One of the calls that may be under way, for as long as it lives.
class LimitObjects::Slot {
 public:
  Slot(LimitObjects& store, size_t bytes) : store_(store) {
    Millis wait = 0;
    {
      std::unique_lock lock(store_.mutex_);
      store_.free_.wait(lock, [&] {
        return store_.limits_.calls_at_once == 0 || store_.calls_ < store_.limits_.calls_at_once;
      });
      ++store_.calls_;
      wait = static_cast<Millis>(
          std::ceil(store_.free_at_ - static_cast<double>(store_.clock_())));
    }
    store_.Charge(bytes);
    if (store_.limits_.bytes_per_second > 0 && wait > 0) store_.sleep_(wait);
  }
  ~Slot() {
    std::lock_guard lock(store_.mutex_);
    --store_.calls_;
    store_.free_.notify_one();
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  LimitObjects& store_;
};

LimitObjects::LimitObjects(ObjectStore& below, ObjectLimits limits, std::function<Millis()> clock,
                           std::function<void(Millis)> sleep)
    : below_(below), limits_(limits), clock_(clock ? std::move(clock) : SteadyClock),
      sleep_(sleep ? std::move(sleep) : SleepFor) {}

void LimitObjects::Charge(size_t bytes) {
  if (limits_.bytes_per_second <= 0) return;
  std::lock_guard lock(mutex_);
  free_at_ = std::max(free_at_, static_cast<double>(clock_())) +
             1'000.0 * static_cast<double>(bytes) / static_cast<double>(limits_.bytes_per_second);
}

absl::Status LimitObjects::PutIfAbsent(const std::string& key, std::string_view bytes) {
  Slot slot(*this, bytes.size());
  return below_.PutIfAbsent(key, bytes);
}

absl::Status LimitObjects::Put(const std::string& key, std::string_view bytes) {
  Slot slot(*this, bytes.size());
  return below_.Put(key, bytes);
}

absl::StatusOr<std::string> LimitObjects::Get(const std::string& key) {
  Slot slot(*this, 0);
  auto bytes = below_.Get(key);
  Charge(SizeOf(bytes));
  return bytes;
}

absl::StatusOr<std::string> LimitObjects::GetRange(const std::string& key, Bytes offset,
                                                   Bytes size) {
  Slot slot(*this, 0);
  auto bytes = below_.GetRange(key, offset, size);
  Charge(SizeOf(bytes));
  return bytes;
}

absl::StatusOr<std::optional<ObjectInfo>> LimitObjects::Look(const std::string& key) {
  Slot slot(*this, 0);
  return below_.Look(key);
}

absl::StatusOr<std::vector<ObjectInfo>> LimitObjects::List(const std::string& prefix,
                                                           const std::string& after,
                                                           size_t count_max) {
  Slot slot(*this, 0);
  return below_.List(prefix, after, count_max);
}

absl::Status LimitObjects::Delete(const std::string& key) {
  Slot slot(*this, 0);
  return below_.Delete(key);
}

}  // namespace rt
