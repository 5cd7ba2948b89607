// The files of taken checkpoints in the run directory of their attempt, as pusher.h lists them:
// where they lie and what the notes beside them say. Any thread; nothing here is locked.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/cas/tree.h"
#include "worker/session/live_attempt.h"

namespace rt::worker {

// The directory of the checkpoint that came with this row.
std::string TakenPathOf(const LiveAttempt& attempt, uint64_t seq);
// The newest row whose checkpoint is committed; 0: none.
uint64_t DoneOf(const LiveAttempt& attempt);
// Below it, the file of a replica, also of one that was about to be made: its manifest's digest and
// the bytes of its files.
std::string ReplicaNote(const std::string& directory);
StoredTree ReadReplicaNote(const std::string& directory);  // Without a manifest: there is none.
// row.json.
absl::StatusOr<Json> ReadNote(const std::string& directory);
// Of all files below a path, as their sizes say: of a sparse file with its holes.
Bytes BytesBelow(const std::string& path);

}  // namespace rt::worker
