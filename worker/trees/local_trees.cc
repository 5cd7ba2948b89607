#include "worker/trees/local_trees.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <set>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/cas/store_space.h"
#include "common/run/clock.h"
#include "common/run/copy_tree.h"
#include "common/run/files.h"
#include "worker/trees/tree_files.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr char kManifest[] = ".manifest";
constexpr char kReplicaSuffix[] = ".held";  // Fences, one per line.

timespec BootTime() {
  timespec now{}, up{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  return {now.tv_sec - up.tv_sec, 0};
}

// Of the tree at `path`; durable when it returns.
absl::Status WriteFences(const std::string& path, const std::set<Fence>& replica_of) {
  if (replica_of.empty()) return RemoveTree(path + kReplicaSuffix);
  std::string text;
  for (const Fence& fence : replica_of) text += rt::ToString(fence) + "\n";
  return WriteFileAtomic(path + kReplicaSuffix, text);
}

std::set<Fence> ReadFences(const std::string& path) {
  std::set<Fence> replica_of;
  auto text = ReadFile(path + kReplicaSuffix);
  for (const std::string& line : Split(text.ok() ? *text : "", '\n'))
    if (auto fence = ParseFence(line)) replica_of.insert(*fence);
  return replica_of;
}

}  // namespace

KeptBounds BoundsOn(const std::string& directory, Bytes asked) {
  KeptBounds bounds;
  struct statvfs info {};
  if (asked >= 0) {
    bounds.bytes = asked;
  } else if (::statvfs(directory.c_str(), &info) == 0) {
    bounds.bytes = std::min(bounds.bytes, static_cast<Bytes>(info.f_blocks * info.f_frsize / 10));
  }
  return bounds;
}

LocalTrees::LocalTrees(std::string directory, KeptBounds bounds, std::function<void()> on_change)
    : directory_(std::move(directory)), bounds_(bounds), on_change_(std::move(on_change)) {
  Load();
}

void LocalTrees::Load() {
  std::set<std::string> known;
  std::vector<std::string> stray;
  const timespec booted = BootTime();
  std::error_code error;
  for (const auto& one : fs::directory_iterator(directory_, error)) {
    const std::string path = one.path().string();
    if (!path.ends_with(kManifest)) continue;
    const std::string tree = path.substr(0, path.size() - sizeof kManifest + 1);
    struct stat info {};
    auto text = ReadFile(path);
    auto parsed = text.ok() ? ParseManifest(*text) : absl::StatusOr<Manifest>(text.status());
    if (!parsed.ok() || NameOf(Digest(*text)) != fs::path(tree).filename() || !Exists(tree) ||
        ::lstat(path.c_str(), &info) != 0)
      continue;
    const uint64_t id = Add(Digest(*text), *parsed, tree);
    Tree& found = trees_[id];
    found.whole = found.kept = true;
    found.written = found.chunks;
    // What was written before the machine went down may be there in part: its chunks are verified,
    // but it is not cloned.
    if (IsLater(info.st_mtim, booted)) found.since = info.st_mtim;
    known.insert(path);
    known.insert(tree);
    found.replica_of = ReadFences(tree);
    if (!found.replica_of.empty()) known.insert(tree + kReplicaSuffix);
  }
  for (const auto& one : fs::directory_iterator(directory_, error))
    if (!known.contains(one.path().string())) stray.push_back(one.path().string());
  const std::vector<std::string> evicted = Evict(bounds_);
  stray.insert(stray.end(), evicted.begin(), evicted.end());
  RemoveTrees(stray);
}

uint64_t LocalTrees::Add(const std::string& manifest, const Manifest& tree,
                         const std::string& path) {
  const uint64_t id = next_++;
  Tree& added = trees_[id];
  added = {.manifest = manifest, .path = path, .moved_at = SteadyClock(), .used = ++uses_};
  for (const ManifestEntry& entry : tree.entries) {
    if (entry.kind != ManifestEntry::Kind::kFile) continue;
    const std::vector<ChunkSpan> spans = SpansOf(entry, tree.chunk_bytes);
    for (size_t i = 0; i < spans.size(); ++i) {
      auto [at, is_new] = places_.try_emplace(entry.chunks[i]);
      at->second.push_back(
          {id, added.chunks++, added.files.size(), spans[i].offset, spans[i].size});
      added.digests.push_back(&at->first);
    }
    added.files.push_back({entry.path, entry.size});
    added.bytes += entry.size;
  }
  auto text = FormatManifest(tree);
  if (text.ok()) added.text = std::move(*text);
  return id;
}

uint64_t LocalTrees::Begin(const std::string& manifest, const Manifest& tree,
                           const std::string& path) {
  uint64_t id = 0;
  {
    std::lock_guard lock(mutex_);
    id = Add(manifest, tree, path);
  }
  Changed();
  return id;
}

void LocalTrees::NoteWritten(uint64_t id, size_t chunks) {
  std::lock_guard lock(mutex_);
  auto found = trees_.find(id);
  if (found == trees_.end()) return;
  found->second.written = chunks;
  found->second.moved_at = SteadyClock();
  moved_.notify_all();
}

absl::Status LocalTrees::Finish(uint64_t id, const std::string& path) {
  {
    std::lock_guard lock(mutex_);
    Tree& tree = trees_.at(id);
    if (tree.path != path && std::rename(tree.path.c_str(), path.c_str()) != 0)
      return ErrnoStatus(errno, "rename " + tree.path);
    tree.path = path;
    tree.whole = true;
    tree.written = tree.chunks;
    tree.since = FileClock();
    moved_.notify_all();
  }
  Changed();
  return absl::OkStatus();
}

void LocalTrees::Drop(uint64_t id) {
  {
    std::lock_guard lock(mutex_);
    Erase(id);
  }
  Changed();
}

void LocalTrees::DropAt(const std::string& path) {
  {
    std::lock_guard lock(mutex_);
    const uint64_t id = FindAt(path);
    if (id == 0) return;
    Erase(id);
  }
  Changed();
}

void LocalTrees::Erase(uint64_t id) {
  auto found = trees_.find(id);
  if (found == trees_.end()) return;
  const std::set<const std::string*> digests(found->second.digests.begin(),
                                             found->second.digests.end());
  trees_.erase(found);
  for (const std::string* digest : digests) {
    auto at = places_.find(*digest);
    std::erase_if(at->second, [id](const Place& place) { return place.tree == id; });
    if (at->second.empty()) places_.erase(at);
  }
  moved_.notify_all();
}

// A chunk of it was not found, or was wrong, at `path`. If it has been renamed since, that says
// nothing.
void LocalTrees::GiveUp(uint64_t id, const std::string& path) {
  bool kept = false;
  {
    std::lock_guard lock(mutex_);
    auto found = trees_.find(id);
    if (found == trees_.end() || found->second.path != path) return;
    kept = found->second.kept;
    Erase(id);
  }
  if (kept) RemoveTrees({path + kManifest, path, path + kReplicaSuffix});
  Changed();
}

uint64_t LocalTrees::FindAt(const std::string& path) const {
  for (const auto& [id, tree] : trees_)
    if (tree.path == path) return id;
  return 0;
}

void LocalTrees::Changed() const {
  if (on_change_) on_change_();
}

void LocalTrees::Keep(const std::string& manifest, const std::string& text, const std::string& path,
                      timespec since) {
  auto parsed = ParseManifest(text);
  if (!parsed.ok()) return;
  Bytes bytes = 0;
  for (const ManifestEntry& entry : parsed->entries) {
    bytes += entry.size;
    if (entry.kind == ManifestEntry::Kind::kFile &&
        !IsUnchanged(path + "/" + entry.path, entry.size, since))
      return;
  }
  if (bytes > bounds_.bytes || !EnsureDirectory(directory_).ok()) return;
  // What is kept is the first to go where trials and checkpoints to come need the room.
  if (!CheckSpace(directory_, bytes).ok()) return FreeSpace();
  const std::string kept = directory_ + "/" + NameOf(manifest);
  std::vector<std::string> evicted;
  {
    std::lock_guard lock(mutex_);
    if (Exists(kept)) return;
    // Its manifest comes last, with the time at which the files were known to be right.
    const timespec times[2] = {since, since};
    if (std::rename(path.c_str(), kept.c_str()) != 0) return;
    if (!WriteFileAtomic(kept + kManifest, text, {.sync = false}).ok() ||
        ::utimensat(AT_FDCWD, (kept + kManifest).c_str(), times, 0) != 0) {
      evicted = {kept, kept + kManifest};
    } else {
      Tree& tree = trees_[Add(manifest, *parsed, kept)];
      tree.whole = tree.kept = true;
      tree.written = tree.chunks;
      tree.since = since;
      evicted = Evict(bounds_);
    }
  }
  RemoveTrees(evicted);
  Changed();
}

void LocalTrees::KeepAt(const std::string& path) {
  std::string manifest, text;
  timespec since{};
  {
    std::lock_guard lock(mutex_);
    const uint64_t id = FindAt(path);
    if (id == 0) return;
    const Tree& tree = trees_.at(id);
    if (tree.whole) {
      manifest = tree.manifest;
      text = tree.text;
      since = tree.since;
    }
    Erase(id);
  }
  if (!manifest.empty()) Keep(manifest, text, path, since);
}

// The tree comes last: without it the files beside it mean nothing.
absl::Status LocalTrees::MoveHere(const Fence& fence, const std::string& text,
                                  const std::string& path, timespec since,
                                  const std::string& kept) {
  RT_RETURN_IF_ERROR(RemoveTree(kept));  // What was given up, and is being removed.
  RT_RETURN_IF_ERROR(WriteFileAtomic(kept + kManifest, text));
  const timespec times[2] = {since, since};
  if (::utimensat(AT_FDCWD, (kept + kManifest).c_str(), times, 0) != 0)
    return ErrnoStatus(errno, "date " + kept + kManifest);
  RT_RETURN_IF_ERROR(WriteFences(kept, {fence}));
  if (std::rename(path.c_str(), kept.c_str()) != 0) return ErrnoStatus(errno, "rename " + path);
  return SyncDirectory(directory_);
}

absl::Status LocalTrees::AddReplica(const Fence& fence, const std::string& manifest,
                                    const std::string& text, const std::string& path,
                                    timespec since) {
  RT_ASSIGN_OR_RETURN(const Manifest parsed, ParseManifest(text));
  RT_RETURN_IF_ERROR(EnsureDirectory(directory_));
  RT_RETURN_IF_ERROR(SyncTree(path));
  for (const ManifestEntry& entry : parsed.entries)
    if (entry.kind == ManifestEntry::Kind::kFile &&
        !IsUnchanged(path + "/" + entry.path, entry.size, since))
      return absl::DataLossError(ToAbsl(path + "/" + entry.path + " has changed"));
  const std::string kept = directory_ + "/" + NameOf(manifest);
  bool is_new = false;
  {
    std::lock_guard lock(mutex_);
    is_new = FindAt(kept) == 0;
    if (is_new) {
      RT_RETURN_IF_ERROR(MoveHere(fence, text, path, since, kept));
      Tree& tree = trees_[Add(manifest, parsed, kept)];
      tree.replica_of = {fence};
      tree.whole = tree.kept = true;
      tree.written = tree.chunks;
      tree.since = since;
    }
  }
  if (!is_new) RT_RETURN_IF_ERROR(ReplicaFromKept(fence, kept));
  Changed();
  return absl::OkStatus();
}

absl::Status LocalTrees::ReplicaFromKept(const Fence& fence, const std::string& kept) {
  RT_RETURN_IF_ERROR(SyncTree(kept));  // It may only have been kept so far.
  std::lock_guard lock(mutex_);
  const uint64_t id = FindAt(kept);
  if (id == 0) return absl::UnavailableError("the tree was given up meanwhile");
  std::set<Fence>& replica_of = trees_.at(id).replica_of;
  if (!replica_of.insert(fence).second) return absl::OkStatus();
  absl::Status noted = WriteFences(kept, replica_of);
  if (!noted.ok()) replica_of.erase(fence);
  return noted;
}

bool LocalTrees::ShareReplica(const Fence& fence, const std::string& manifest) {
  const std::string replica = ReplicaAt(manifest);
  return !replica.empty() && ReplicaFromKept(fence, replica).ok();
}

void LocalTrees::Release(const Fence& fence, const std::string& manifest) {
  std::vector<std::string> evicted;
  {
    std::lock_guard lock(mutex_);
    const uint64_t id = FindAt(directory_ + "/" + NameOf(manifest));
    if (id == 0 || trees_.at(id).replica_of.erase(fence) == 0) return;
    if (absl::Status noted = WriteFences(trees_.at(id).path, trees_.at(id).replica_of);
        !noted.ok()) {
      RT_LOG(kWarning) << MessageOf(noted);
    }
    evicted = Evict(bounds_);
  }
  RemoveTrees(evicted);
  Changed();
}

std::vector<LocalTrees::Replica> LocalTrees::Replicas() const {
  std::lock_guard lock(mutex_);
  std::vector<Replica> replicas;
  for (const auto& [id, tree] : trees_)
    for (const Fence& fence : tree.replica_of) replicas.push_back({fence, tree.manifest});
  return replicas;
}

std::string LocalTrees::ReplicaAt(const std::string& manifest) const {
  std::lock_guard lock(mutex_);
  const uint64_t id = FindAt(directory_ + "/" + NameOf(manifest));
  return id == 0 || trees_.at(id).replica_of.empty() ? "" : trees_.at(id).path;
}

std::string LocalTrees::NewPart() {
  std::lock_guard lock(mutex_);
  return directory_ + "/" + std::to_string(next_++) + ".part";
}

void LocalTrees::FreeSpace() {
  std::vector<std::string> evicted;
  {
    std::lock_guard lock(mutex_);
    evicted = Evict({.trees = 0, .bytes = 0});
  }
  RemoveTrees(evicted);
  Changed();
}

// Takes the trees used longest ago out of here until the rest fits; the paths are to be removed.
std::vector<std::string> LocalTrees::Evict(const KeptBounds& bounds) {
  std::vector<std::pair<uint64_t, uint64_t>> by_use;  // Use, id.
  for (const auto& [id, tree] : trees_)
    if (tree.kept && tree.replica_of.empty()) by_use.emplace_back(tree.used, id);
  std::sort(by_use.rbegin(), by_use.rend());
  std::vector<std::string> evicted;
  KeptBounds kept{0, 0};
  for (const auto& [use, id] : by_use) {
    const Tree& tree = trees_.at(id);
    if (kept.trees < bounds.trees && kept.bytes + tree.bytes <= bounds.bytes) {
      ++kept.trees;
      kept.bytes += tree.bytes;
      continue;
    }
    // The manifest first: what has none is no kept tree to the next daemon.
    evicted.push_back(tree.path + kManifest);
    evicted.push_back(tree.path);
    Erase(id);
  }
  return evicted;
}

std::pair<const LocalTrees::Place*, uint64_t> LocalTrees::Look(const Wanted& wanted) const {
  auto found = places_.find(wanted.digest);
  if (found == places_.end()) return {nullptr, 0};
  uint64_t coming = 0;
  for (const Place& place : found->second) {
    const Tree& tree = trees_.at(place.tree);
    if (place.number < tree.written) return {&place, 0};
    const bool waits = !tree.whole && tree.manifest == wanted.manifest &&
                       (wanted.before == 0 || place.tree < wanted.before);
    if (waits && coming == 0) coming = place.tree;
  }
  return {nullptr, coming};
}

absl::StatusOr<std::string> LocalTrees::GetChunk(const Wanted& wanted) {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto [place, coming] = Look(wanted);
    if (place != nullptr) {
      const Place at = *place;
      Tree& tree = trees_.at(at.tree);
      tree.used = ++uses_;
      const std::string path = tree.path;
      const std::string file = path + "/" + tree.files[at.file].path;
      lock.unlock();
      auto bytes = ReadPiece(file, at.offset, at.size);
      if (bytes.ok() && VerifyDigest(wanted.digest, *bytes).ok()) return bytes;
      GiveUp(at.tree, path);  // Another may have it.
      lock.lock();
    } else if (coming == 0) {
      return NotFound("no chunk " + wanted.digest + " on this node");
    } else {
      const Millis left = trees_.at(coming).moved_at + limits::kPeerStall - SteadyClock();
      if (left <= 0) return absl::UnavailableError("the tree is on its way here, and stands still");
      moved_.wait_for(lock, std::chrono::milliseconds(left));
    }
  }
}

absl::StatusOr<std::string> LocalTrees::GetManifest(const std::string& manifest) {
  std::lock_guard lock(mutex_);
  for (const auto& [id, tree] : trees_)
    if (tree.manifest == manifest && tree.whole && !tree.text.empty()) return tree.text;
  return NotFound("no manifest " + manifest + " on this node");
}

absl::Status LocalTrees::Clone(const std::string& manifest, const std::string& target) {
  Tree from;
  {
    std::lock_guard lock(mutex_);
    auto found = std::find_if(trees_.begin(), trees_.end(), [&](const auto& one) {
      return one.second.manifest == manifest && one.second.whole;
    });
    if (found == trees_.end()) return NotFound("no tree " + manifest + " on this node");
    found->second.used = ++uses_;
    from = found->second;
  }
  RT_RETURN_IF_ERROR(CopyTree(from.path, target, CopyMode::kClone));
  // Looked at afterwards: what changed while it was cloned is younger than the manifest, too.
  for (const File& file : from.files)
    if (!IsUnchanged(from.path + "/" + file.path, file.size, from.since))
      return absl::DataLossError(ToAbsl(from.path + "/" + file.path + " has changed"));
  return absl::OkStatus();
}

std::vector<std::string> LocalTrees::Large(bool whole) const {
  std::lock_guard lock(mutex_);
  std::set<std::string> found;
  for (const auto& [id, tree] : trees_)
    if (tree.whole == whole &&
        (tree.bytes >= limits::kPeerTreeBytesMin || !tree.replica_of.empty()))
      found.insert(tree.manifest);
  return {found.begin(), found.end()};
}

std::vector<std::string> LocalTrees::Complete() const { return Large(true); }
std::vector<std::string> LocalTrees::Arriving() const { return Large(false); }

}  // namespace rt::worker
