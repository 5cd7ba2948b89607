#include "head/journal/snapshot_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"
#include "head/journal/snapshot_bytes.h"

namespace rt {
namespace {

constexpr Bytes kFileBytesMax = Bytes{8} << 30;

}  // namespace

std::string SnapshotFiles::PathOf(uint64_t seq) const { return directory_ + "/" + SeqName(seq); }

std::vector<uint64_t> SnapshotFiles::Seqs() const {
  std::vector<uint64_t> seqs;
  std::error_code error;  // An absent directory holds none.
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename().string();
    uint64_t seq = 0;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), seq);
    if (code == std::errc() && end == name.data() + name.size() && name == SeqName(seq))
      seqs.push_back(seq);
  }
  std::sort(seqs.rbegin(), seqs.rend());
  return seqs;
}

absl::Status SnapshotFiles::Write(const Snapshot& snapshot, const std::string& chain_hash) {
  const std::string bytes = SealSnapshot(snapshot, chain_hash);
  std::lock_guard lock(mutex_);
  RT_RETURN_IF_ERROR(EnsureDirectory(directory_));
  RT_RETURN_IF_ERROR(WriteFileAtomic(PathOf(snapshot.seq), bytes));
  RT_RETURN_IF_ERROR(FailAt("head.snapshot.after_write"));
  const std::vector<uint64_t> seqs = Seqs();
  for (size_t i = kSnapshotsKept; i < seqs.size(); ++i) {
    std::error_code error;
    if (!std::filesystem::remove(PathOf(seqs[i]), error) && error) {
      RT_LOG(kWarning) << "snapshot: remove " << PathOf(seqs[i]) << ": " << error.message();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Snapshot>> SnapshotFiles::Latest(uint64_t seq_max,
                                                              const HashAt& hash_at) {
  for (uint64_t seq : Seqs()) {
    if (seq > seq_max) continue;
    absl::StatusOr<std::string> state = ReadFile(PathOf(seq), kFileBytesMax);
    absl::StatusOr<std::string> hash = hash_at(seq);
    if (!hash.ok()) state = hash.status();
    if (state.ok()) state = OpenSnapshot(seq, *std::move(state), *hash);
    if (state.ok()) return Snapshot{seq, *std::move(state)};
    RT_LOG(kWarning) << "journal: snapshot " << seq << " is passed over: "
                     << MessageOf(state.status());
  }
  return std::nullopt;
}

}  // namespace rt
