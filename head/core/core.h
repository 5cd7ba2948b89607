// The head's brain: no I/O, no clock, no threads, no randomness.
//
//   Step(core, input, now) -> outcome    decides; changes the state only by Apply
//   Apply(world, event, seq, at)         the only way the state changes
//   DesiredFor(world, node)              what a worker should be doing (desired.h)
//   NextDeadline(core)                   when to call Step(Tick) at the latest
//
// The caller makes an outcome's events and rows durable, in order and in one transaction with each
// other, before it lets any effect out: an answer, a Sync's reply, a read. If that fails, memory is
// ahead of the disk and the process must end and replay. Events are facts: replaying them never
// re-runs a decision. Commands to workers are derived, so a lost message heals at the next Sync.
// Owned by the core thread.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "head/core/events.h"
#include "head/core/inputs.h"
#include "head/core/state.h"

namespace rt {

struct Core {
  World world;
  Soft soft;
};

// One fact with its place in the journal. Sequence numbers are dense and start at 1.
struct Record {
  uint64_t seq = 0;
  Millis at = 0;
  Event event;
  friend bool operator==(const Record&, const Record&) = default;
};

struct Outcome {
  absl::Status verdict;  // Not OK: the input itself changed nothing.
  Answer answer;
  std::vector<Record> records;
  std::vector<RowBatch> rows;  // Of the ReportsAccepted among the records, in the same order.
};

// What the head's clock shows when it starts: the wall clock, but never less than the newest
// record's time, because a clock that was set back would hold every lease and budget still until it
// caught up. From there on the caller counts with a steady clock.
Millis StartTime(const State& state, Millis wall);

// `now` is clamped so that it never precedes the newest record.
Outcome Step(Core& core, const Input& input, Millis now);
void Apply(World& world, const Record& record);
std::optional<Millis> NextDeadline(const Core& core);

// Unavailable when the node has heard a later head, or another one with the same epoch: then this
// head's answers are void, including that it does not know a node or an attempt. `seen_epoch`:
// of the newest head that the node has heard.
absl::Status CheckNewest(const Core& core, NodeId node, uint64_t seen_epoch);
absl::Status AnotherHead(uint64_t its_epoch, uint64_t own);  // That error.

// The token, if it can still be used, under the name that is asked for; PermissionDenied otherwise.
absl::StatusOr<Token> FindTokenFor(const State& state, const input::UseToken& use, Millis now);

// Ends the process when the state contradicts itself. Costs a pass over everything: for tests, the
// simulator and, sampled, production.
void CheckInvariants(const Core& core);

// The canonical bytes of a state, for comparing a replay with the live one: every field of
// RT_FIELDS in order. The index is left out.
std::string CanonicalDump(const State& state);

}  // namespace rt
