#include "common/cas/cache_objects.h"

namespace rt {

CacheObjects::CacheObjects(ObjectStore& below, Bytes bytes_max,
                           std::function<bool(const std::string& key)> never_changes)
    : below_(below), bytes_max_(bytes_max), never_changes_(std::move(never_changes)) {}

absl::StatusOr<std::string> CacheObjects::Get(const std::string& key) {
  return Read({key, -1, -1});
}

absl::StatusOr<std::string> CacheObjects::GetRange(const std::string& key, Bytes offset,
                                                   Bytes size) {
  if (offset < 0 || size < 0) return below_.GetRange(key, offset, size);  // Its own refusal.
  return Read({key, offset, size});
}

absl::StatusOr<std::string> CacheObjects::Read(const Part& part) {
  if (!never_changes_(std::get<0>(part))) return ReadBelow(part);
  uint64_t writes = 0;
  {
    std::lock_guard lock(mutex_);
    writes = writes_;
    if (auto found = by_part_.find(part); found != by_part_.end()) {
      kept_.splice(kept_.begin(), kept_, found->second);
      return found->second->bytes;
    }
  }
  auto bytes = ReadBelow(part);
  if (bytes.ok()) Keep(part, *bytes, writes);
  return bytes;
}

absl::StatusOr<std::string> CacheObjects::ReadBelow(const Part& part) {
  const auto& [key, offset, size] = part;
  return offset < 0 ? below_.Get(key) : below_.GetRange(key, offset, size);
}

void CacheObjects::Keep(const Part& part, const std::string& bytes, uint64_t writes) {
  const auto size = static_cast<Bytes>(bytes.size());
  std::lock_guard lock(mutex_);
  if (writes != writes_ || size > bytes_max_ || by_part_.contains(part)) return;
  kept_.push_front({part, bytes});
  by_part_[part] = kept_.begin();
  bytes_ += size;
  while (bytes_ > bytes_max_) {
    bytes_ -= static_cast<Bytes>(kept_.back().bytes.size());
    by_part_.erase(kept_.back().part);
    kept_.pop_back();
  }
}

void CacheObjects::Drop(const std::string& key) {
  std::lock_guard lock(mutex_);
  ++writes_;
  for (auto at = by_part_.lower_bound({key, -1, -1});
       at != by_part_.end() && std::get<0>(at->first) == key;) {
    bytes_ -= static_cast<Bytes>(at->second->bytes.size());
    kept_.erase(at->second);
    at = by_part_.erase(at);
  }
}

// Before and after: a read that begins while the write is under way is not kept either.
absl::Status CacheObjects::PutIfAbsent(const std::string& key, std::string_view bytes) {
  Drop(key);
  absl::Status status = below_.PutIfAbsent(key, bytes);
  Drop(key);
  return status;
}

absl::Status CacheObjects::Put(const std::string& key, std::string_view bytes) {
  Drop(key);
  absl::Status status = below_.Put(key, bytes);
  Drop(key);
  return status;
}

absl::Status CacheObjects::Delete(const std::string& key) {
  Drop(key);
  absl::Status status = below_.Delete(key);
  Drop(key);
  return status;
}

absl::StatusOr<std::optional<ObjectInfo>> CacheObjects::Look(const std::string& key) {
  return below_.Look(key);
}

absl::StatusOr<std::vector<ObjectInfo>> CacheObjects::List(const std::string& prefix,
                                                           const std::string& after,
                                                           size_t count_max) {
  return below_.List(prefix, after, count_max);
}

Bytes CacheObjects::bytes_kept() {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace rt
