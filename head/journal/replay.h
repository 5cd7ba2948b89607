// What a journal says the state is: its newest snapshot, and every record after it through Apply.
#pragma once

#include "absl/status/statusor.h"
#include "head/core/core.h"
#include "head/journal/journal.h"

namespace rt {

struct Replayed {
  World world;
  uint64_t snapshot_seq = 0;  // Where it began; 0: at the first record.
};
// Up to the newest durable record, or to `seq_max`.
absl::StatusOr<Replayed> Replay(Journal& journal, uint64_t seq_max = UINT64_MAX);

// On from a world that was followed up to some record of this journal.
absl::StatusOr<Replayed> ReplayOn(Journal& journal, World world);

}  // namespace rt
