#include "common/cas/mem_objects.h"

#include "common/base/status.h"

namespace rt {

absl::StatusOr<std::string> RangeOf(std::string_view bytes, const std::string& key, Bytes offset,
                                    Bytes size) {
  const Bytes have = static_cast<Bytes>(bytes.size());
  if (offset < 0 || size < 0) return Invalid("a negative range of " + key);
  if (offset > have || size > have - offset)
    return absl::OutOfRangeError(ToAbsl(key + " has " + std::to_string(have) +
                                        " bytes; asked for " + std::to_string(size) + " at " +
                                        std::to_string(offset)));
  return std::string(bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(size)));
}

absl::Status MemObjects::PutIfAbsent(const std::string& key, std::string_view bytes) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  std::lock_guard lock(mutex_);
  if (!objects_.try_emplace(key, Object{std::string(bytes), now_}).second)
    return absl::AlreadyExistsError(ToAbsl("there is an object " + key));
  return absl::OkStatus();
}

absl::Status MemObjects::Put(const std::string& key, std::string_view bytes) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  std::lock_guard lock(mutex_);
  objects_.insert_or_assign(key, Object{std::string(bytes), now_});
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemObjects::Get(const std::string& key) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  std::lock_guard lock(mutex_);
  auto found = objects_.find(key);
  if (found == objects_.end()) return NotFound("no object " + key);
  return found->second.bytes;
}

absl::StatusOr<std::string> MemObjects::GetRange(const std::string& key, Bytes offset, Bytes size) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  std::lock_guard lock(mutex_);
  auto found = objects_.find(key);
  if (found == objects_.end()) return NotFound("no object " + key);
  return RangeOf(found->second.bytes, key, offset, size);
}

absl::StatusOr<std::optional<ObjectInfo>> MemObjects::Look(const std::string& key) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  std::lock_guard lock(mutex_);
  auto found = objects_.find(key);
  if (found == objects_.end()) return std::nullopt;
  return ObjectInfo{key, static_cast<Bytes>(found->second.bytes.size()), found->second.changed_at};
}

absl::StatusOr<std::vector<ObjectInfo>> MemObjects::List(const std::string& prefix,
                                                         const std::string& after,
                                                         size_t count_max) {
  std::lock_guard lock(mutex_);
  std::vector<ObjectInfo> listed;
  auto at = after < prefix ? objects_.lower_bound(prefix) : objects_.upper_bound(after);
  for (; at != objects_.end() && listed.size() < count_max && at->first.starts_with(prefix); ++at)
    listed.push_back({at->first, static_cast<Bytes>(at->second.bytes.size()),
                      at->second.changed_at});
  return listed;
}

absl::Status MemObjects::Delete(const std::string& key) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  std::lock_guard lock(mutex_);
  objects_.erase(key);
  return absl::OkStatus();
}

void MemObjects::Advance(Millis by) {
  std::lock_guard lock(mutex_);
  now_ += by;
}

}  // namespace rt
