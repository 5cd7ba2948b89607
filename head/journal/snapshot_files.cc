#include "head/journal/snapshot_files.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/files.h"
#include "head/journal/chain.h"

namespace rt {
namespace {

constexpr std::string_view kMagic = "rtsnap1\n";
constexpr size_t kHeaderBytes = kMagic.size() + 2 * kHashBytes;
constexpr size_t kKept = 2;
constexpr Bytes kFileBytesMax = Bytes{8} << 30;

std::string NameOf(uint64_t seq) {
  char name[24];
  std::snprintf(name, sizeof name, "%020llu", static_cast<unsigned long long>(seq));
  return name;
}

std::string Seal(uint64_t seq, std::string_view chain_hash, std::string_view state) {
  return Chain("snapshot " + NameOf(seq) + ":" + std::string(chain_hash), state);
}

// The state in the file's bytes, if they are whole and fit the log.
absl::StatusOr<std::string> Open(uint64_t seq, std::string bytes,
                                 const SnapshotFiles::HashAt& hash_at) {
  const std::string_view view = bytes;
  if (view.size() < kHeaderBytes || !view.starts_with(kMagic))
    return absl::DataLossError("it is not a snapshot");
  const std::string_view chain_hash = view.substr(kMagic.size(), kHashBytes);
  const std::string_view seal = view.substr(kMagic.size() + kHashBytes, kHashBytes);
  if (Seal(seq, chain_hash, view.substr(kHeaderBytes)) != seal)
    return absl::DataLossError("it is damaged");
  RT_ASSIGN_OR_RETURN(std::string expected, hash_at(seq));
  if (expected != chain_hash) return absl::DataLossError("it belongs to another journal");
  bytes.erase(0, kHeaderBytes);
  return bytes;
}

}  // namespace

std::string SnapshotFiles::PathOf(uint64_t seq) const { return directory_ + "/" + NameOf(seq); }

std::vector<uint64_t> SnapshotFiles::Seqs() const {
  std::vector<uint64_t> seqs;
  std::error_code error;  // An absent directory holds none.
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename().string();
    uint64_t seq = 0;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), seq);
    if (code == std::errc() && end == name.data() + name.size() && name == NameOf(seq))
      seqs.push_back(seq);
  }
  std::sort(seqs.rbegin(), seqs.rend());
  return seqs;
}

absl::Status SnapshotFiles::Write(const Snapshot& snapshot, const std::string& chain_hash) {
  std::string bytes;
  bytes.reserve(kHeaderBytes + snapshot.state.size());
  bytes.append(kMagic).append(chain_hash);
  bytes.append(Seal(snapshot.seq, chain_hash, snapshot.state)).append(snapshot.state);
  std::lock_guard lock(mutex_);
  RT_RETURN_IF_ERROR(EnsureDirectory(directory_));
  RT_RETURN_IF_ERROR(WriteFileAtomic(PathOf(snapshot.seq), bytes));
  const std::vector<uint64_t> seqs = Seqs();
  for (size_t i = kKept; i < seqs.size(); ++i) {
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
    if (state.ok()) state = Open(seq, *std::move(state), hash_at);
    if (state.ok()) return Snapshot{seq, *std::move(state)};
    RT_LOG(kWarning) << "journal: snapshot " << seq << " is passed over: "
                     << MessageOf(state.status());
  }
  return std::nullopt;
}

}  // namespace rt
