// DirStore: a blob store in a directory, the head's default.
//   chunks/<ab>/<digest>   manifests/<digest>   tmp/ (what a crash left half-written; emptied at
// Open) A file is written in tmp, synced, renamed, and its directory synced: what has a name is
// whole.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/cas/blob_store.h"

namespace rt {

class DirStore : public SweptStore {
 public:
  // Makes the directory when it is absent, and counts what lies there. One process at a time may
  // have it open. `quota` 0: no bound but the disk.
  static absl::StatusOr<std::unique_ptr<DirStore>> Open(const std::string& root, Bytes quota = 0);

  absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::vector<std::string>& digests) override;
  absl::Status PutChunk(const std::string& digest, std::string_view bytes) override;
  // All files are written before the first is synced: one commit of the file system serves many.
  absl::Status PutChunks(const std::vector<NamedChunk>& chunks) override;
  absl::StatusOr<std::string> GetChunk(const std::string& digest) override;
  absl::StatusOr<std::string> PutManifest(std::string_view text) override;
  absl::StatusOr<std::string> GetManifest(const std::string& digest) override;

  // In one phase: the times of the files say when they were counted on last.
  absl::StatusOr<Swept> Sweep(const std::set<std::string>& live_manifests, Millis grace) override;
  bool IsShortOfSpace() const override { return space_.IsShort(); }
  void LookAgain() override { space_.LookAgain(); }
  StoreUse use() const override { return space_.use(); }

 private:
  DirStore(const std::string& root, Bytes quota) : root_(root), space_(quota, root) {}
  absl::Status CountAll();
  std::string ChunkPath(const std::string& digest) const;
  std::string ManifestPath(const std::string& digest) const;
  absl::Status WriteDurable(const std::string& path, std::string_view bytes);
  absl::Status WriteAllDurable(const std::vector<NamedChunk>& chunks, StoreSpace::Part& space);
  absl::Status MakeFolder(const std::string& digest);
  class Unfinished;
  absl::Status Name(Unfinished& file, const std::string& path, Bytes bytes,
                    StoreSpace::Part& space);
  bool Touch(const std::string& path);
  absl::StatusOr<std::string> ReadNamed(const std::string& path, const std::string& digest,
                                        std::string_view what);
  absl::StatusOr<std::string> ReadManifest(const std::string& digest);  // Counts on nothing.

  const std::string root_;
  StoreSpace space_;
  std::mutex folder_mutex_;
  std::mutex age_mutex_;  // Nobody counts on a file between the look at its age and its end.
};

}  // namespace rt
