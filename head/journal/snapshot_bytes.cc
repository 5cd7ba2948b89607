#include "head/journal/snapshot_bytes.h"

#include <cstdio>

#include "head/journal/chain.h"

namespace rt {
namespace {

constexpr std::string_view kSnapshotMagic = "rtsnap1\n";
constexpr size_t kSnapshotHeaderBytes = kSnapshotMagic.size() + 2 * kHashBytes;

std::string Seal(uint64_t seq, std::string_view chain_hash, std::string_view state) {
  return Chain("snapshot " + SeqName(seq) + ":" + std::string(chain_hash), state);
}

}  // namespace

std::string SeqName(uint64_t seq) {
  char name[24];
  std::snprintf(name, sizeof name, "%020llu", static_cast<unsigned long long>(seq));
  return name;
}

std::string SealSnapshot(const Snapshot& snapshot, std::string_view chain_hash) {
  std::string bytes;
  bytes.reserve(kSnapshotHeaderBytes + snapshot.state.size());
  bytes.append(kSnapshotMagic).append(chain_hash);
  return bytes.append(Seal(snapshot.seq, chain_hash, snapshot.state)).append(snapshot.state);
}

std::string ChainHashOf(std::string_view bytes) {
  if (bytes.size() < kSnapshotHeaderBytes) return "";
  return std::string(bytes.substr(kSnapshotMagic.size(), kHashBytes));
}

absl::StatusOr<std::string> OpenSnapshot(uint64_t seq, std::string bytes,
                                         std::string_view chain_hash) {
  const std::string_view view = bytes;
  if (view.size() < kSnapshotHeaderBytes || !view.starts_with(kSnapshotMagic))
    return absl::DataLossError("it is not a snapshot");
  const std::string own_hash = ChainHashOf(view);
  const std::string_view seal = view.substr(kSnapshotMagic.size() + kHashBytes, kHashBytes);
  if (Seal(seq, own_hash, view.substr(kSnapshotHeaderBytes)) != seal)
    return absl::DataLossError("it is damaged");
  if (own_hash != chain_hash) return absl::DataLossError("it belongs to another journal");
  bytes.erase(0, kSnapshotHeaderBytes);
  return bytes;
}

}  // namespace rt
