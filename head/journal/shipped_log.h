// The journal in an object store: a log that any head can read and only one can continue to write.
//   log/<seq>   a segment, named by its first record in 20 digits. Names are dense: the next one is
//               the seq after its last record. A slot is written once and by one head only
//               (PutIfAbsent): whoever takes over writes the next slot, and its predecessor's next
//               write finds it taken. No clock and no lock is involved.
//   pack/<seq>  the same records in larger objects, so that reading a long log is few calls. Slots
//               that are packed may go once they are a week old.
//   snap/<seq>  snapshots of the state (snapshot_bytes.h).
// docs/journal.md says more. Thread-safe; calls block.
#pragma once

#include <optional>
#include <string>

#include "common/cas/object_store.h"
#include "head/journal/segment.h"

namespace rt {

class ShippedLog {
 public:
  explicit ShippedLog(ObjectStore& store) : store_(store) {}

  struct End {
    uint64_t seq = 0;  // Of the last record; 0: the log is empty.
    uint64_t epoch = 0;
    std::string hash;  // Of the chain there.
    std::string slot;  // The key of the last object.
  };
  absl::StatusOr<End> FindEnd();

  // The segment that begins with exactly this record; nothing when there is none (yet). One call.
  absl::StatusOr<std::optional<LogSegment>> Next(uint64_t seq);
  // The segment that holds this record, wherever it is; nothing when the log ends before.
  absl::StatusOr<std::optional<LogSegment>> Find(uint64_t seq);

  // Writes a slot. Aborted when another head has written it: this one leads no more. An earlier try
  // with the same bytes, whose outcome is unknown, is found and counts. Unavailable and the like:
  // it is open whether it was done; call again with the same bytes.
  absl::Status Append(uint64_t seq, const std::string& bytes);

  absl::Status WriteSnapshot(uint64_t seq, const std::string& sealed);
  // Newest first.
  absl::StatusOr<std::vector<uint64_t>> Snapshots();
  absl::StatusOr<std::string> ReadSnapshot(uint64_t seq);

  // The first record that is in no pack.
  absl::StatusOr<uint64_t> PackedUntil();
  // Of records that this head knows to be in the log.
  absl::Status WritePack(uint64_t seq, const std::string& bytes);
  // Removes slots that are in packs and were written long ago by the store's own clock, but for the
  // last one. How many.
  absl::StatusOr<size_t> RemoveOldSlots(Millis kept_for);

  ObjectStore& store() { return store_; }

 private:
  absl::StatusOr<std::optional<LogSegment>> Get(const std::string& key);
  // The last key below `prefix` that is not beyond `seq`; empty when there is none.
  absl::StatusOr<std::string> LastKey(const std::string& prefix, const std::string& after,
                                      uint64_t seq);

  ObjectStore& store_;
};

}  // namespace rt
