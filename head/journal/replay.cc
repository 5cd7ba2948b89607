#include "head/journal/replay.h"

#include "common/base/status.h"
#include "head/journal/codec.h"

namespace rt {

absl::StatusOr<Replayed> Replay(Journal& journal, uint64_t seq_max) {
  Replayed replayed;
  World& world = replayed.world;
  RT_ASSIGN_OR_RETURN(std::optional<Snapshot> snapshot, journal.LatestSnapshot(seq_max));
  if (snapshot.has_value()) {
    replayed.snapshot_seq = snapshot->seq;
    RT_ASSIGN_OR_RETURN(world.state, DecodeState(snapshot->state));
    if (world.state.seq != snapshot->seq) {
      return absl::DataLossError("the snapshot at " + std::to_string(snapshot->seq) +
                                 " holds the state at " + std::to_string(world.state.seq));
    }
  }
  Reindex(world);
  const auto apply = [&](const Record& record) {
    if (record.seq > seq_max) return absl::OutOfRangeError("");  // Ends the reading.
    Apply(world, record);
    return absl::OkStatus();
  };
  absl::Status status = journal.Read(world.state.seq, apply);
  if (!status.ok() && !absl::IsOutOfRange(status)) return Annotate(status, "replay");
  return replayed;
}

absl::StatusOr<Replayed> ReplayOn(Journal& journal, World world) {
  Replayed replayed{.world = std::move(world)};
  replayed.snapshot_seq = replayed.world.state.seq;
  absl::Status status = journal.Read(replayed.world.state.seq, [&](const Record& record) {
    Apply(replayed.world, record);
    return absl::OkStatus();
  });
  if (!status.ok()) return Annotate(status, "replay");
  return replayed;
}

}  // namespace rt
