// Snapshots of the state, a file each in a directory beside the journal, so that writing one never
// holds up a commit. What is in a file: snapshot_bytes.h; its name is the seq in 20 digits.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "head/journal/journal.h"

namespace rt {

class SnapshotFiles {
 public:
  explicit SnapshotFiles(std::string directory) : directory_(std::move(directory)) {}

  // Durable when it returns; all but the newest few are removed.
  absl::Status Write(const Snapshot& snapshot, const std::string& chain_hash);
  // The newest one at or before `seq_max` whose chain hash is that of the log (`hash_at`). One that
  // is damaged or foreign is passed over and logged.
  using HashAt = std::function<absl::StatusOr<std::string>(uint64_t seq)>;
  absl::StatusOr<std::optional<Snapshot>> Latest(uint64_t seq_max, const HashAt& hash_at);

 private:
  std::vector<uint64_t> Seqs() const;  // Descending.
  std::string PathOf(uint64_t seq) const;

  const std::string directory_;
  std::mutex mutex_;  // One writer at a time.
};

}  // namespace rt
