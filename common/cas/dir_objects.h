// DirObjects: an object store in a directory, also on a mounted file system that several machines
// share. Several processes may have it open at once.
//   objects/log+/0001   the object "log/0001": folders end in '+', which no key has, so that the
//                       keys "log" and "log/0001" do not fight for one name
//   tmp/<random>        what is being written; what a crash left there is removed at Open once it
//                       is a day old
// An object is written in tmp, synced, and gets its name by link(2) (PutIfAbsent: the kernel lets
// one succeed) or rename(2) (Put); then its folder is synced.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/cas/object_store.h"

namespace rt {

class DirObjects : public ObjectStore {
 public:
  // Makes the directory when it is absent.
  static absl::StatusOr<std::unique_ptr<DirObjects>> Open(const std::string& root);

  absl::Status PutIfAbsent(const std::string& key, std::string_view bytes) override;
  absl::Status Put(const std::string& key, std::string_view bytes) override;
  absl::StatusOr<std::string> Get(const std::string& key) override;
  absl::StatusOr<std::string> GetRange(const std::string& key, Bytes offset, Bytes size) override;
  absl::StatusOr<std::optional<ObjectInfo>> Look(const std::string& key) override;
  absl::StatusOr<std::vector<ObjectInfo>> List(const std::string& prefix, const std::string& after,
                                               size_t count_max) override;
  absl::Status Delete(const std::string& key) override;

 private:
  explicit DirObjects(std::string root) : root_(std::move(root)) {}
  std::string PathOf(std::string_view key) const;
  absl::StatusOr<std::string> WriteTemporary(std::string_view bytes);
  // Makes the folders of a path, each name durable in the one above.
  absl::Status MakeFolders(const std::string& path);
  absl::Status ListFolder(const std::string& folder, const std::string& key_prefix,
                          const std::string& prefix, const std::string& after, size_t count_max,
                          std::vector<ObjectInfo>& listed);

  const std::string root_;
  std::mutex mutex_;
  std::set<std::string> durable_folders_;
};

}  // namespace rt
