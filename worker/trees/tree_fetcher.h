// Brings trees to this node from where they are nearest: from this node itself, from other workers,
// from the head's store. When one source fails, the next is asked; the head's answer is final.
// Thread-safe; calls block.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/cas/blob_store.h"
#include "worker/trees/local_trees.h"

namespace rt::worker {

// The nodes that hold a checkpoint which the store may not have yet. NotFound: none of them has it.
struct ReplicaSource {
  std::unique_ptr<BlobSource> source;
  bool all = false;  // None that may have it is missing.
};

class PeerSources {
 public:
  virtual ~PeerSources() = default;
  // DataLoss: no remaining node has the checkpoint that the attempt starts from.
  virtual absl::StatusOr<ReplicaSource> FindReplicas(const std::string& manifest,
                                                     const Fence& fence) = 0;
  // Other workers that have the tree or are getting it, as one source (of chunks), which is
  // Unavailable once none of them serves. Null when there are none.
  virtual std::unique_ptr<BlobSource> Find(const std::string& manifest) = 0;
};

enum class TreeKind { kAny, kBundle };

class TreeFetcher {
 public:
  // `peers`: null where there are none.
  TreeFetcher(BlobSource& head, LocalTrees& trees, PeerSources* peers = nullptr)
      : head_(head), trees_(trees), peers_(peers) {}

  // Writes the tree at `path`, which must not be there: below `part` first where that is another
  // one. From then on it serves others until Leave. NotFound and DataLoss: the head's store has
  // lost it. Before a byte is written: InvalidArgument for a bundle above the limits, and what
  // CheckUnpack says of the disk.
  absl::Status Fetch(const std::string& manifest, const std::string& part, const std::string& path,
                     TreeKind kind = TreeKind::kAny);
  // The same of a checkpoint that the store may not have yet, for the attempt that starts from it.
  // NotFound and DataLoss: it is lost.
  absl::Status FetchReplica(const std::string& manifest, const Fence& fence,
                            const std::string& path);
  // Brings a tree from another node as a replica. ResourceExhausted: no space.
  absl::Status FetchAsReplica(BlobSource& from, const std::string& manifest, const Fence& fence);
  // The files of several trees in the directory `path`, which is made anew; of one name the last
  // tree's stays. It is not served to others: it is none of the trees.
  absl::Status FetchMerged(const std::vector<std::string>& manifests, const std::string& path);
  // The tree at `path` is not needed here any more: it is kept for later if it has not changed;
  // otherwise, and with `keep` false, it is left to the caller.
  void Leave(const std::string& path, bool keep);

 private:
  absl::StatusOr<std::string> FindManifest(const std::string& manifest);
  absl::Status Write(BlobSource& source, const std::string& manifest, const std::string& text,
                     const std::string& part, const std::string& path,
                     TreeKind kind = TreeKind::kAny);
  absl::Status CheckFits(const Manifest& tree, const std::string& directory);

  BlobSource& head_;
  LocalTrees& trees_;
  PeerSources* const peers_;
};

}  // namespace rt::worker
