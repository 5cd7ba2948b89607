#include "worker/run/tree_cache.h"

#include <cctype>
#include <cerrno>
#include <cstdio>

#include "common/base/status.h"
#include "common/cas/tree.h"
#include "common/run/files.h"

namespace rt::worker {

absl::StatusOr<std::string> TreeCache::Get(const std::string& manifest) {
  std::string name;
  for (char letter : manifest) {
    name += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  }
  const std::string path = directory_ + "/" + name;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !fetching_.contains(manifest); });
  if (Exists(path)) return path;
  fetching_.insert(manifest);
  lock.unlock();
  absl::Status fetched = Fetch(manifest, path);
  lock.lock();
  fetching_.erase(manifest);
  changed_.notify_all();
  if (!fetched.ok()) return fetched;
  return path;
}

absl::Status TreeCache::Fetch(const std::string& manifest, const std::string& path) {
  const std::string part = path + ".part";
  RT_RETURN_IF_ERROR(EnsureDirectory(directory_));
  RT_RETURN_IF_ERROR(RemoveTree(part));
  RT_RETURN_IF_ERROR(RestoreTree(store_, manifest, part));
  if (std::rename(part.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "rename " + part);
  return absl::OkStatus();
}

}  // namespace rt::worker
