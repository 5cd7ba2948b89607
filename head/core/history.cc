// Whether this head knows all that heads before it have said. A state that was restored from an
// older copy, and a takeover where the journal is shipped asynchronously, may lack its end; workers
// say how much of it they were told.
#include <algorithm>

#include "common/base/status.h"
#include "head/core/draft.h"

namespace rt {

void BeginHistory(Draft& draft) {
  Soft& soft = draft.soft();
  soft.started_seq = draft.state().seq;
  for (const auto& [id, node] : draft.state().nodes)
    if (!node.gone) soft.unheard.insert(id);
}

absl::Status CheckHistory(Draft& draft, const input::Sync& sync) {
  Soft& soft = draft.soft();
  const State& state = draft.state();
  if (sync.seen_epoch == 0) return absl::OkStatus();
  // Who was a node before this head started, and comes for the first time, cannot have heard of its
  // epoch from this one.
  const bool is_twin = sync.seen_epoch == state.epoch && soft.unheard.contains(sync.node);
  if (is_twin || sync.seen_epoch > state.epoch) {
    soft.other_head = {sync.node, sync.seen_epoch};
    return AnotherHead(sync.seen_epoch, state.epoch);
  }
  soft.unheard.erase(sync.node);
  if (soft.other_head.node == sync.node) soft.other_head = {};
  if (sync.seen_epoch == state.epoch || sync.seen_seq < soft.started_seq) return absl::OkStatus();
  if (soft.forgotten_to == 0)
    draft.Emit(event::HeadRolledBack{sync.node, sync.seen_epoch, sync.seen_seq});
  soft.forgotten_to = std::max(soft.forgotten_to, sync.seen_seq);
  return absl::OkStatus();
}

}  // namespace rt
