// What is legal for backfilled attempts, whose capacity another attempt still has.
#include "tests/sim/auditor.h"

namespace rt::sim {

void Auditor::CheckBackfill(const event::AttemptPlaced& e, const OwnerBook& owner) {
  const OwnerBook& before = LiveOf(e.start_after);
  Must(e.attempt.owner.is_trial() && e.start_after.owner.is_trial() &&
           e.attempt.owner.group == e.start_after.owner.group,
       "a backfilled attempt waits for a trial of its own search");
  const AuditedSpec& spec = ExperimentOf(e.attempt.owner.trial().experiment).spec;
  Must(!spec.searches && !spec.schedules && !spec.selects_next,
       "no trial that a driver decides about is backfilled");
  Must(before.asks.text == owner.asks.text && before.members == e.members,
       "the capacity is that of an equal request");
  Must(owner.asks.bundles.size() == 1 && owner.asks.bundles.front().gpu == 0,
       "only requests of one rank on cpus are backfilled");
  Must(!before.suspending && !before.stop_requested,
       "no attempt is backfilled behind one that is asked to end");
  NodeBook& node = NodeOf(e.members.front().node);
  Must(node.ready && !node.gone && !node.draining, "work goes to ready nodes only");
  node.live.insert(e.attempt);
  backfill_before_[e.attempt] = e.start_after;
  Must(backfill_next_.emplace(e.start_after, e.attempt).second,
       "one attempt is backfilled behind another");
}

void Auditor::DropBackfill(const AttemptId& attempt, const Member& member) {
  const AttemptId before = backfill_before_.at(attempt);
  NodeOf(member.node).live.erase(attempt);
  NodeOf(member.node).busy_at = at_;
  backfill_before_.erase(attempt);
  backfill_next_.erase(before);
  const auto next = backfill_next_.find(attempt);
  if (next == backfill_next_.end()) return;
  backfill_before_[next->second] = before;
  backfill_next_[before] = next->second;
  backfill_next_.erase(attempt);
}

// The capacity that was just returned passes to the attempt behind.
void Auditor::Inherit(const AttemptId& attempt) {
  const auto next = backfill_next_.find(attempt);
  if (next == backfill_next_.end()) return;
  const AttemptId heir = next->second;
  backfill_next_.erase(next);
  backfill_before_.erase(heir);
  const OwnerBook& owner = LiveOf(heir);
  Hold(owner.members.front(), heir, owner.asks.bundles.front());
}

void Auditor::CheckWithdrawn(const event::AttemptEnded& e, const OwnerBook& owner) const {
  Must(backfill_before_.contains(e.attempt), "only a backfilled attempt is withdrawn");
  Must(owner.started.empty() && Accepted({e.attempt, 0}) == 0, "no attempt that ran is withdrawn");
}

}  // namespace rt::sim
