// The trees on this node: those that were pulled for attempts here, and checkpoints that were
// pushed from here or pulled before, kept within bounds. A restore takes chunks from here before it
// asks other nodes or the store, and other workers are served from here, also while a tree is
// incomplete.
//   <directory>/<name>/           a kept tree
//   <directory>/<name>.manifest   its manifest; older than this no file of it has changed
//   <directory>/<name>.held       it is a replica, of the ranks in this file: it stays
// A program may change the files of its own tree: every chunk is verified as it is read, and a tree
// with a wrong one is dropped. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/limits.h"
#include "common/base/time.h"
#include "common/cas/manifest.h"

namespace rt::worker {

struct KeptBounds {
  size_t trees = limits::kKeptCheckpointsMax;
  Bytes bytes = limits::kKeptCheckpointBytesMax;  // 0: nothing is kept.
};

// `asked` bytes; without (-1) the default, and no more than a tenth of the disk of `directory`.
KeptBounds BoundsOn(const std::string& directory, Bytes asked);

class LocalTrees {
 public:
  // Finds what earlier daemons kept. `on_change`: Complete() or Arriving() has changed; any thread.
  LocalTrees(std::string directory, KeptBounds bounds, std::function<void()> on_change = nullptr);

  // A tree is about to be written below `path`; its id. Then how far it is, in chunks; that it is
  // whole (and renamed to `path`); or that it never will be.
  uint64_t Begin(const std::string& manifest, const Manifest& tree, const std::string& path);
  void NoteWritten(uint64_t id, size_t chunks);
  absl::Status Finish(uint64_t id, const std::string& path);
  void Drop(uint64_t id);
  // What lies at `path` is about to be removed or changed.
  void DropAt(const std::string& path);

  // Moves the tree at `path` here, unless it does not fit or a file of it changed after `since`:
  // then it stays. Older ones are removed for it.
  void Keep(const std::string& manifest, const std::string& text, const std::string& path,
            timespec since);
  // The same of one that was written (Finish) and has not changed since.
  void KeepAt(const std::string& path);
  // Moves the tree at `path` here, where it stays until Release, beyond the bounds and through a
  // loss of power. DataLoss: a file of it changed after `since`. If the tree is here already, that
  // one becomes the replica, and the tree at `path` is left to the caller.
  absl::Status AddReplica(const Fence& fence, const std::string& manifest, const std::string& text,
                          const std::string& path, timespec since);
  // The same for a tree that is here already; false: it is not.
  bool ShareReplica(const Fence& fence, const std::string& manifest);
  void Release(const Fence& fence, const std::string& manifest);
  struct Replica {
    Fence fence;  // Of the rank that saved it.
    std::string manifest;
  };
  std::vector<Replica> Replicas() const;
  // The path of a replica; "": it was released, or dropped because its bytes had changed.
  std::string ReplicaAt(const std::string& manifest) const;
  // A path for a tree that will become a replica.
  std::string NewPart();

  // Drops every kept tree that is not a replica: the disk is full.
  void FreeSpace();

  struct Wanted {
    std::string digest;
    std::string manifest;  // Of the tree that it is wanted for: one on its way here is waited for,
    uint64_t before = 0;   // if it was begun before this id. 0: any.
  };
  // Verified. NotFound: it is not here; Unavailable: it is on its way and stands still.
  absl::StatusOr<std::string> GetChunk(const Wanted& wanted);
  absl::StatusOr<std::string> GetManifest(const std::string& manifest);
  // Makes `target` a tree that shares its bytes with one that is here, and changes by itself. Fails
  // where the file system cannot, or none is here unchanged.
  absl::Status Clone(const std::string& manifest, const std::string& target);

  // Manifests of replicas, and of trees of at least kPeerTreeBytesMin.
  std::vector<std::string> Complete() const;
  std::vector<std::string> Arriving() const;

 private:
  struct File {
    std::string path;  // Below the tree.
    Bytes size = 0;
  };
  struct Tree {
    std::string manifest;
    std::string text;
    std::string path;
    std::vector<File> files;
    std::vector<const std::string*> digests;  // Keys of places_.
    Bytes bytes = 0;
    size_t chunks = 0;
    size_t written = 0;
    bool whole = false;
    bool kept = false;
    std::set<Fence> replica_of;  // Empty: it is not a replica.
    timespec since{};            // No file of it has changed after.
    Millis moved_at = 0;         // The last chunk came.
    uint64_t used = 0;           // Counts uses: the least is the longest ago.
  };
  struct Place {
    uint64_t tree = 0;
    size_t number = 0;  // Of the chunk in the tree.
    size_t file = 0;
    Bytes offset = 0;
    Bytes size = 0;
  };
  uint64_t Add(const std::string& manifest, const Manifest& tree, const std::string& path);
  void Load();
  absl::Status MoveHere(const Fence& fence, const std::string& text, const std::string& path,
                        timespec since, const std::string& kept);
  absl::Status ReplicaFromKept(const Fence& fence, const std::string& kept);
  void Erase(uint64_t id);
  void GiveUp(uint64_t id, const std::string& path);
  uint64_t FindAt(const std::string& path) const;
  std::vector<std::string> Evict(const KeptBounds& bounds);
  // Of the chunk: where it can be read; or else the tree to wait for; 0 and 0: neither.
  std::pair<const Place*, uint64_t> Look(const Wanted& wanted) const;
  std::vector<std::string> Large(bool whole) const;
  void Changed() const;

  const std::string directory_;
  const KeptBounds bounds_;
  const std::function<void()> on_change_;
  mutable std::mutex mutex_;
  std::condition_variable moved_;
  uint64_t next_ = 1;
  uint64_t uses_ = 0;
  std::map<uint64_t, Tree> trees_;
  std::unordered_map<std::string, std::vector<Place>> places_;  // By digest.
};

}  // namespace rt::worker
