#include "worker/trees/tree_fetcher.h"

#include <atomic>
#include <filesystem>
#include <mutex>

#include "common/base/status.h"
#include "common/cas/manifest.h"
#include "common/cas/store_space.h"
#include "common/cas/tree.h"
#include "common/cas/unpack.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"
#include "worker/trees/tree_files.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

// The chunks of one tree on its way here.
class Nearest : public BlobSource {
 public:
  Nearest(BlobSource& head, LocalTrees& trees, PeerSources* peers, LocalTrees::Wanted wanted)
      : head_(head), trees_(trees), peers_(peers), wanted_(std::move(wanted)) {}

  absl::StatusOr<std::string> GetChunk(const std::string& digest) override {
    LocalTrees::Wanted wanted = wanted_;
    wanted.digest = digest;
    if (auto here = trees_.GetChunk(wanted); here.ok()) return here;
    if (BlobSource* peers = Peers(); peers != nullptr)
      if (auto there = peers->GetChunk(digest); there.ok()) return there;
    return head_.GetChunk(digest);
  }
  absl::StatusOr<std::string> GetManifest(const std::string& digest) override {
    return head_.GetManifest(digest);
  }

 private:
  // Looked for when the first chunk is not here.
  BlobSource* Peers() {
    if (peers_ == nullptr) return nullptr;
    std::call_once(looked_, [this] { found_ = peers_->Find(wanted_.manifest); });
    return found_.get();
  }

  BlobSource& head_;
  LocalTrees& trees_;
  PeerSources* const peers_;
  const LocalTrees::Wanted wanted_;
  std::once_flag looked_;
  std::unique_ptr<BlobSource> found_;
};

// What nodes hold for the store, which may have it by now.
class ReplicasThenStore : public BlobSource {
 public:
  ReplicasThenStore(BlobSource& replicas, BlobSource& store) : replicas_(replicas), store_(store) {}
  absl::StatusOr<std::string> GetChunk(const std::string& digest) override {
    return First(replicas_.GetChunk(digest), [&] { return store_.GetChunk(digest); });
  }
  absl::StatusOr<std::string> GetManifest(const std::string& digest) override {
    return First(replicas_.GetManifest(digest), [&] { return store_.GetManifest(digest); });
  }
  // They were asked, and said so.
  bool replicas_lack_it() const { return lack_it_; }

 private:
  template <class Next>
  absl::StatusOr<std::string> First(absl::StatusOr<std::string> found, Next next) {
    if (found.ok()) return found;
    if (absl::IsNotFound(found.status())) lack_it_ = true;
    return next();
  }
  BlobSource& replicas_;
  BlobSource& store_;
  std::atomic<bool> lack_it_ = false;
};

bool IsFolder(const fs::path& path) {
  std::error_code not_there;
  return fs::is_directory(fs::symlink_status(path, not_there));
}

// Moves what is in `from` into `to`, in place of what has the same name there.
void MoveInto(const fs::path& from, const fs::path& to, std::error_code& error) {
  for (fs::directory_iterator at(from, error), end; !error && at != end; at.increment(error)) {
    const fs::path target = to / at->path().filename();
    if (IsFolder(at->path()) && IsFolder(target)) {
      MoveInto(at->path(), target, error);
    } else {
      fs::remove_all(target, error);  // If anything is there.
      if (!error) fs::rename(at->path(), target, error);
    }
    if (error) return;
  }
}

}  // namespace

absl::StatusOr<std::string> TreeFetcher::FindManifest(const std::string& manifest) {
  auto here = trees_.GetManifest(manifest);
  return here.ok() ? here : head_.GetManifest(manifest);
}

absl::Status TreeFetcher::Fetch(const std::string& manifest, const std::string& part,
                                const std::string& path, TreeKind kind) {
  RT_RETURN_IF_ERROR(FailAt("worker.restore.before_pull"));
  RT_ASSIGN_OR_RETURN(const std::string text, FindManifest(manifest));
  return Write(head_, manifest, text, part, path, kind);
}

// Checkpoints that are kept for later make way for it.
absl::Status TreeFetcher::CheckFits(const Manifest& tree, const std::string& directory) {
  const absl::Status fits = CheckUnpack(tree, directory);
  if (!absl::IsResourceExhausted(fits)) return fits;
  trees_.FreeSpace();
  return CheckUnpack(tree, directory);
}

// `source` is asked for what neither this node nor others have.
absl::Status TreeFetcher::Write(BlobSource& source, const std::string& manifest,
                                const std::string& text, const std::string& part,
                                const std::string& path, TreeKind kind) {
  RT_ASSIGN_OR_RETURN(const Manifest tree, ParseManifest(text));
  if (kind == TreeKind::kBundle) RT_RETURN_IF_ERROR(CheckBundle(tree));
  RT_RETURN_IF_ERROR(RemoveTree(part));
  const bool cloned = trees_.Clone(manifest, part).ok();
  if (!cloned) {
    RT_RETURN_IF_ERROR(RemoveTree(part));
    RT_RETURN_IF_ERROR(CheckFits(tree, fs::path(part).parent_path().string()));
  }
  const uint64_t id = trees_.Begin(manifest, tree, part);
  absl::Status status;
  if (!cloned) {
    PeerSources* peers = TotalsOf(tree).bytes >= limits::kPeerTreeBytesMin ? peers_ : nullptr;
    Nearest nearest(source, trees_, peers, {.manifest = manifest, .before = id});
    status = RestoreEntries(nearest, tree, part, [&](size_t chunks) {
      ReachFailpoint("worker.restore.mid_pull");
      trees_.NoteWritten(id, chunks);
    });
  }
  if (status.ok()) status = FailAt("worker.restore.before_rename");
  if (status.ok()) status = trees_.Finish(id, path);
  if (!status.ok()) trees_.Drop(id);
  return status;
}

absl::Status TreeFetcher::FetchReplica(const std::string& manifest, const Fence& fence,
                                       const std::string& path) {
  RT_RETURN_IF_ERROR(FailAt("worker.restore.before_pull"));
  if (auto here = trees_.GetManifest(manifest); here.ok()) {
    const absl::Status written = Write(head_, manifest, *here, path, path);
    if (!absl::IsNotFound(written) && !absl::IsDataLoss(written)) return written;
  }
  if (peers_ == nullptr) return Fetch(manifest, path, path);
  RT_ASSIGN_OR_RETURN(ReplicaSource replicas, peers_->FindReplicas(manifest, fence));
  ReplicasThenStore source(*replicas.source, head_);
  auto text = source.GetManifest(manifest);
  const absl::Status status =
      text.ok() ? Write(source, manifest, *text, path, path) : text.status();
  if (!absl::IsNotFound(status) || (replicas.all && source.replicas_lack_it())) return status;
  return absl::UnavailableError("the nodes that hold the checkpoint do not serve it now");
}

absl::Status TreeFetcher::FetchAsReplica(BlobSource& from, const std::string& manifest,
                                         const Fence& fence) {
  std::string text;
  if (auto here = trees_.GetManifest(manifest); here.ok()) {
    text = *here;
  } else {
    RT_ASSIGN_OR_RETURN(text, from.GetManifest(manifest));
  }
  RT_ASSIGN_OR_RETURN(const Manifest tree, ParseManifest(text));
  const std::string part = trees_.NewPart();
  RT_RETURN_IF_ERROR(EnsureDirectory(fs::path(part).parent_path().string()));
  absl::Status status = CheckSpace(fs::path(part).parent_path().string(), TotalsOf(tree).bytes);
  if (absl::IsResourceExhausted(status)) trees_.FreeSpace();
  Nearest nearest(from, trees_, nullptr, {.manifest = manifest});
  if (status.ok()) status = RestoreEntries(nearest, tree, part, nullptr);
  if (status.ok()) status = trees_.AddReplica(fence, manifest, text, part, FileClock());
  RemoveTree(part).IgnoreError();  // With the next start of the daemon, at the latest.
  return status;
}

absl::Status TreeFetcher::FetchMerged(const std::vector<std::string>& manifests,
                                      const std::string& path) {
  RT_RETURN_IF_ERROR(RemoveTree(path));
  RT_RETURN_IF_ERROR(EnsureDirectory(path));
  const std::string part = path + ".part";
  for (const std::string& manifest : manifests) {
    RT_RETURN_IF_ERROR(Fetch(manifest, part, part));
    Leave(part, false);
    std::error_code error;
    MoveInto(part, path, error);
    if (error) return ErrnoStatus(error.value(), "merge into " + path);
  }
  return RemoveTree(part);
}

void TreeFetcher::Leave(const std::string& path, bool keep) {
  if (keep) {
    trees_.KeepAt(path);
  } else {
    trees_.DropAt(path);
  }
}

}  // namespace rt::worker
