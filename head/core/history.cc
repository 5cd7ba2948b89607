// Whether this head knows all that previous heads have said. A state that was restored from an
// older copy, and a takeover where the journal is shipped asynchronously, may lack the end of the
// journal; workers report the newest record that they have heard of.
#include <algorithm>

#include "common/base/status.h"
#include "head/core/draft.h"

namespace rt {
namespace {

constexpr uint64_t kEpochsSkipped = 1'000;  // More than heads led since a copy was made.

// A node that joined before this head started, and syncs for the first time, cannot have heard of
// this epoch from this head.
bool HeardOfAnother(const Core& core, NodeId node, uint64_t seen_epoch) {
  const uint64_t epoch = core.world.state.epoch;
  return seen_epoch > epoch || (seen_epoch == epoch && core.soft.unheard.contains(node));
}

}  // namespace

void OnStartHead(Draft& draft, const input::StartHead& input) {
  const State& state = draft.state();
  const bool fresh = state.epoch == 0;
  const uint64_t epoch = state.epoch + (input.restored ? kEpochsSkipped : 1);
  draft.Emit(event::HeadStarted{epoch, fresh ? input.cluster_id : state.cluster_id,
                                fresh ? input.cluster_name : state.cluster_name, input.version});
  Soft& soft = draft.soft();
  soft.started_seq = state.seq;
  for (const auto& [id, node] : state.nodes)
    if (!node.gone) soft.unheard.insert(id);
  GiveTimeToReturn(draft);
  GiveTimeToRenew(draft);
  soft.node_types = input.node_types;
  soft.try_place = true;
  for (const PoolSpec& pool : input.pools) soft.pools[pool.name] = pool;
  soft.max_workers = input.max_workers;
  soft.fetches_logs = input.fetches_logs;
  soft.elastic_interval = input.elastic_interval;
}

absl::Status CheckNewest(const Core& core, NodeId node, uint64_t seen_epoch) {
  return HeardOfAnother(core, node, seen_epoch) ? AnotherHead(seen_epoch, core.world.state.epoch)
                                                : absl::OkStatus();
}

absl::Status AnotherHead(uint64_t its_epoch, uint64_t own) {
  return absl::UnavailableError(
      "another head has taken over (epoch " + std::to_string(its_epoch) + "; this one's is " +
      std::to_string(own) + "). If this one's state was restored from an older copy on purpose, "
      "say so: rt-head --state-dir DIR --restored, and start it again");
}

absl::Status CheckHistory(Draft& draft, const input::Sync& sync) {
  Soft& soft = draft.soft();
  const absl::Status newest = CheckNewest(draft.core, sync.node, sync.seen_epoch);
  if (!newest.ok()) {
    soft.other_head = {sync.node, sync.seen_epoch};
    return newest;
  }
  // Whatever it says it has heard, the next epoch that it hears may be this one's.
  soft.unheard.erase(sync.node);
  if (soft.other_head.node == sync.node) soft.other_head = {};
  const bool heard_before = sync.seen_epoch != 0 && sync.seen_epoch < draft.state().epoch;
  if (!heard_before || sync.seen_seq < soft.started_seq) return absl::OkStatus();
  if (soft.forgotten_to == 0)
    draft.Emit(event::HeadRolledBack{sync.node, sync.seen_epoch, sync.seen_seq});
  soft.forgotten_to = std::max(soft.forgotten_to, sync.seen_seq);
  return absl::OkStatus();
}

}  // namespace rt
