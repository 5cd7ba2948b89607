// A snapshot as it is kept: "rtsnap1\n", the chain's hash at its record, SHA-256 over its seq, that
// hash and the state, then the state. The hash ties it to one history: a snapshot of another
// journal, or of a future that this one lost, is not taken for one of ours. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "head/journal/journal.h"

namespace rt {

inline constexpr size_t kSnapshotsKept = 2;  // Readers that are behind may want the one before.

std::string SealSnapshot(const Snapshot& snapshot, std::string_view chain_hash);
// The state in sealed bytes; DataLoss when they are damaged, or of another history than the one
// whose hash at `seq` is `chain_hash`.
absl::StatusOr<std::string> OpenSnapshot(uint64_t seq, std::string bytes,
                                         std::string_view chain_hash);
// The chain's hash in sealed bytes, unchecked; empty when they are too short.
std::string ChainHashOf(std::string_view bytes);
// Its name, so that names sort as numbers do.
std::string SeqName(uint64_t seq);

}  // namespace rt
