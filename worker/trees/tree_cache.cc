#include "worker/trees/tree_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/files.h"
#include "worker/trees/tree_files.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr char kPart[] = ".part";     // Is being fetched.
constexpr char kEvicted[] = ".gone";  // Is being removed.

// A digest as the name of a directory.
std::string CacheNameOf(const std::string& manifest) {
  std::string name;
  for (char letter : manifest) {
    name += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  }
  return name;
}

Bytes SizeOf(const std::string& path) {
  Bytes bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    struct stat info {};
    if (::lstat(at->path().c_str(), &info) == 0) bytes += info.st_size;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> TreeCache::Get(const std::string& manifest, const Fence& user,
                                           TreeKind kind) {
  const std::string name = CacheNameOf(manifest);
  const std::string path = directory_ + "/" + name;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !fetching_.contains(name); });
  users_[user].insert(name);
  if (Exists(path)) {
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // Only its place in the queue.
    return path;
  }
  fetching_.insert(name);
  lock.unlock();
  absl::Status fetched = Fetch(manifest, path, kind);
  lock.lock();
  fetching_.erase(name);
  changed_.notify_all();
  if (!fetched.ok()) return fetched;
  const std::vector<std::string> evicted = Evict(bounds_);
  lock.unlock();
  RemoveTrees(evicted);
  return path;
}

std::string TreeCache::PathOf(const std::string& manifest) const {
  const std::string path = directory_ + "/" + CacheNameOf(manifest);
  return Exists(path) ? path : "";
}

void TreeCache::Keep(const std::string& manifest, const Fence& user) {
  std::lock_guard lock(mutex_);
  users_[user].insert(CacheNameOf(manifest));
}

void TreeCache::Release(const Fence& user) {
  std::lock_guard lock(mutex_);
  users_.erase(user);
}

absl::Status TreeCache::Fetch(const std::string& manifest, const std::string& path, TreeKind kind) {
  RT_RETURN_IF_ERROR(EnsureDirectory(directory_));
  const absl::Status fetched = fetcher_.Fetch(manifest, path + kPart, path, kind);
  if (!absl::IsResourceExhausted(fetched)) return fetched;
  std::vector<std::string> evicted;
  {
    std::lock_guard lock(mutex_);
    evicted = Evict({.trees = 0, .bytes = 0});
  }
  if (evicted.empty()) return fetched;
  RemoveTrees(evicted);
  return fetcher_.Fetch(manifest, path + kPart, path, kind);
}

std::vector<TreeCache::Entry> TreeCache::Entries() {
  std::vector<Entry> entries;
  std::error_code error;
  for (const auto& one : fs::directory_iterator(directory_, error)) {
    Entry entry{.name = one.path().filename().string()};
    struct stat info {};
    if (entry.name.ends_with(kPart) || ::lstat(one.path().c_str(), &info) != 0) continue;
    entry.used_at = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
    auto known = sizes_.find(entry.name);
    if (known == sizes_.end()) known = sizes_.emplace(entry.name, SizeOf(one.path())).first;
    entry.bytes = known->second;
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<std::string> TreeCache::Evict(const TreeCacheBounds& bounds) {
  std::vector<Entry> entries = Entries();
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used_at > b.used_at; });
  std::set<std::string> used;
  for (const auto& [user, names] : users_) used.insert(names.begin(), names.end());
  std::vector<std::string> evicted;
  size_t trees = 0;
  Bytes bytes = 0;
  for (const Entry& entry : entries) {
    const std::string path = directory_ + "/" + entry.name;
    if (entry.name.ends_with(kEvicted)) {  // An earlier daemon was interrupted.
      evicted.push_back(path);
      continue;
    }
    const bool fits = trees < bounds.trees && bytes + entry.bytes <= bounds.bytes;
    if (used.contains(entry.name) || fits) {
      ++trees;
      bytes += entry.bytes;
      continue;
    }
    sizes_.erase(entry.name);
    fetcher_.Leave(path, false);
    if (std::rename(path.c_str(), (path + kEvicted).c_str()) == 0) {
      evicted.push_back(path + kEvicted);
    } else {
      RT_LOG(kWarning) << MessageOf(ErrnoStatus(errno, "rename " + path));
    }
  }
  return evicted;
}

}  // namespace rt::worker
