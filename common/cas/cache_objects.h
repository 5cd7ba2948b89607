// CacheObjects: keeps what was read of objects that never change once they are written (chunks,
// packs, manifests) in memory, the least recently used going first. `never_changes` says of which
// keys that is true; of the others nothing is kept. What another process deleted may still be read
// for a while; what this one deletes or writes is not. Thread-safe.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "common/cas/object_store.h"

namespace rt {

class CacheObjects : public ObjectStore {
 public:
  CacheObjects(ObjectStore& below, Bytes bytes_max,
               std::function<bool(const std::string& key)> never_changes);

  absl::Status PutIfAbsent(const std::string& key, std::string_view bytes) override;
  absl::Status Put(const std::string& key, std::string_view bytes) override;
  absl::StatusOr<std::string> Get(const std::string& key) override;
  absl::StatusOr<std::string> GetRange(const std::string& key, Bytes offset, Bytes size) override;
  absl::StatusOr<std::optional<ObjectInfo>> Look(const std::string& key) override;
  absl::StatusOr<std::vector<ObjectInfo>> List(const std::string& prefix, const std::string& after,
                                               size_t count_max) override;
  absl::Status Delete(const std::string& key) override;

  Bytes bytes_kept();

 private:
  using Part = std::tuple<std::string, Bytes, Bytes>;  // Key, offset, size; -1, -1: all of it.
  struct Kept {
    Part part;
    std::string bytes;
  };
  absl::StatusOr<std::string> Read(const Part& part);
  absl::StatusOr<std::string> ReadBelow(const Part& part);
  void Keep(const Part& part, const std::string& bytes, uint64_t writes);
  void Drop(const std::string& key);

  ObjectStore& below_;
  const Bytes bytes_max_;
  const std::function<bool(const std::string&)> never_changes_;
  std::mutex mutex_;
  std::list<Kept> kept_;  // The most recently used first.
  std::map<Part, std::list<Kept>::iterator> by_part_;
  Bytes bytes_ = 0;
  uint64_t writes_ = 0;  // A read that one overtook is not kept.
};

}  // namespace rt
