// The auditor's part about resizes: what is held for them, when a generation may end for one, and
// that no two generations of an attempt run at once.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {
namespace {

// How late an awake head may notice a deadline: ticks queue behind slow appends.
constexpr Millis kResizeSlack = 3'000;
// So long an elastic attempt keeps a size before it grows again.
constexpr Millis kGrowthEvery = 30'000;

bool IsSamePlace(const Member& a, const Member& b) { return a.node == b.node && a.gpus == b.gpus; }

}  // namespace

bool AuditedAsks::MayResize() const {
  return ranks == bundles.size() &&
         std::all_of(bundles.begin(), bundles.end(),
                     [&](const Resources& bundle) { return bundle == bundles.front(); });
}

void AuditedAsks::Resize(uint32_t to) {
  const Resources bundle = bundles.front();
  bundles.assign(to, bundle);
  ranks = to;
  text = to == ranks_asked ? text_asked : text_asked + " with " + std::to_string(to);
}

// Nobody asked for the size: it is the head that decides about it.
void Auditor::CheckElastic(const AttemptId& attempt, const OwnerBook& owner, uint32_t size) const {
  Must(owner.asks.ranks_max != 0, "somebody asked for the size");
  Must(size >= owner.asks.ranks_asked && size <= owner.asks.ranks_max,
       "an elastic attempt stays within its bounds");
  const bool grows = size > owner.members.size();
  Must(!grows || attempt.generation == 1 || at_ >= owner.begun_at + kGrowthEvery,
       "an elastic attempt keeps its size for a while before it grows");
  Must(!grows || owner.started.size() == owner.members.size(),
       "an elastic attempt grows once all of its ranks run");
}

// Who stays keeps its place; who is new gets one where work may go.
void Auditor::CheckKeeps(const event::AttemptResizeRequested& e, const OwnerBook& owner) const {
  const bool grows = e.members.size() > owner.members.size();
  size_t next = 0;
  std::set<NodeId> nodes;
  for (uint32_t rank = 0; rank < e.members.size(); ++rank) {
    const Member& member = e.members[rank];
    Must(member.rank == rank, "members stand in the order of their ranks");
    nodes.insert(member.node);
    const NodeBook& node = nodes_.at(member.node);
    Must(!node.draining, "no attempt is resized onto a draining node");
    if (grows && rank >= owner.members.size()) {
      Must(node.away_until == 0, "nothing new goes to a node that is away");
      continue;
    }
    while (next < owner.members.size() && !IsSamePlace(owner.members[next], member)) ++next;
    Must(next++ < owner.members.size(), "a rank that stays keeps its place");
  }
  Must(owner.asks.strategy != "STRICT_PACK" || nodes.size() == 1, "STRICT_PACK is one node");
  Must(owner.asks.strategy != "STRICT_SPREAD" || nodes.size() == e.members.size(),
       "STRICT_SPREAD is a node for each");
}

void Auditor::On(const event::AttemptResizeRequested& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  const auto size = static_cast<uint32_t>(e.members.size());
  const auto asked = truth_->resizes.find(e.attempt.owner);
  if (asked == truth_->resizes.end() || !asked->second.contains(size)) {
    CheckElastic(e.attempt, owner, size);
    const int64_t priority = ExperimentOf(e.attempt.owner.trial().experiment).spec.priority;
    if (size < owner.members.size() && !AwaitsFrom(priority))
      elastic_.unexplained[e.attempt] = size;
  }
  Must(size != owner.members.size() && owner.asks.MayResize(), "it can have another size");
  Must(owner.next_members.empty(), "one resize of an attempt is under way");
  Must(!owner.suspending && !owner.stop_requested && owner.exits.empty(),
       "an attempt that is ending is not resized");
  Must(!backfill_before_.contains(e.attempt) && !backfill_next_.contains(e.attempt),
       "no attempt is resized whose capacity another one has, or waits for");
  Must(e.save_by > at_, "a deadline lies ahead");
  CheckKeeps(e, owner);
  for (size_t rank = owner.members.size(); rank < e.members.size(); ++rank) {
    NodeBook& node = NodeOf(e.members[rank].node);
    Must(node.ready && !node.gone, "work goes to ready nodes only");
    node.claims.insert(e.attempt);
    Add(e.members[rank], owner.asks.bundles.front());
  }
  owner.next_members = e.members;
  owner.save_by = e.save_by;
  if (!owner.resize_after) owner.resize_after = owner.saved_seq;
}

void Auditor::On(const event::AttemptResizeForced& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  Must(!owner.next_members.empty() && owner.next_members.size() < owner.members.size(),
       "only an attempt that is to shrink is ended without having saved");
  Must(!owner.forced && at_ >= owner.save_by, "and once, after its deadline");
  owner.forced = true;
}

void Auditor::On(const event::AttemptResizeGivenUp& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  Must(!owner.next_members.empty(), "only a resize that is under way is given up");
  const auto requests = truth_->resizes.find(e.attempt.owner);
  const std::set<uint32_t> asked =
      requests == truth_->resizes.end() ? std::set<uint32_t>{} : requests->second;
  const bool others = owner.asks.ranks_max != 0 ||
                      std::any_of(asked.begin(), asked.end(),
                                  [&](uint32_t size) { return size != owner.next_members.size(); });
  const bool grows = owner.next_members.size() > owner.members.size();
  const bool is_ending = owner.suspending || owner.stop_requested || !owner.exits.empty();
  const bool is_hindered =
      std::any_of(owner.next_members.begin(), owner.next_members.end(), [&](const Member& member) {
        const NodeBook& node = nodes_.at(member.node);
        return node.draining || !node.ready;
      });
  Must(others || (grows && (is_ending || is_hindered || at_ >= owner.save_by)),
       "a resize is given up for another one, or a growth because it cannot be carried out");
  ReleaseClaims(owner, e.attempt);
}

void Auditor::ReleaseClaims(OwnerBook& owner, const AttemptId& attempt) {
  for (size_t rank = owner.members.size(); rank < owner.next_members.size(); ++rank) {
    const Member& member = owner.next_members[rank];
    NodeOf(member.node).claims.erase(attempt);
    Return(member, owner.asks.bundles.front());
  }
  owner.next_members.clear();
}

void Auditor::On(const event::AttemptResized& e) {
  const Owner& id = e.attempt.owner;
  OwnerBook& owner = OwnerOf(id);
  const AttemptId before{id, owner.number, owner.generation};
  Must(owner.live && e.attempt.number == owner.number && e.attempt.generation > owner.generation,
       "generations of one attempt grow");
  Must(!owner.next_members.empty() && e.members == owner.next_members,
       "a generation begins as it was asked for");
  Must(!owner.suspending && !owner.stop_requested && !owner.paused,
       "what is to end does not continue with another size");
  CheckAllEnded(owner, before);
  ReleaseClaims(owner, before);
  Release(owner, before);
  owner.asks.Resize(static_cast<uint32_t>(e.members.size()));
  owner.members = e.members;
  for (const Member& member : e.members) Take(member, e.attempt, owner.asks.bundles[member.rank]);
  Begin(owner, e.attempt, e.checkpoint);
  Supersede(TrialOf(id.trial()));
  committed_.insert(id);
}

// No rank of the generation runs any more, and what each reported is accepted.
void Auditor::CheckAllEnded(const OwnerBook& owner, const AttemptId& attempt) const {
  bool has_run = false;
  for (uint32_t rank = 0; rank < owner.asks.ranks; ++rank) {
    const auto run = truth_->runs.find({attempt, rank});
    if (run == truth_->runs.end() || run->second.launch_failed) continue;
    // What ran on a machine that was reset, before the head had heard a row, has never run for it.
    const bool was_unheard = run->second.forgotten && Accepted({attempt, rank}) == 0;
    has_run |= rank == 0 && !run->second.rows.empty() && !was_unheard;
    Must(run->second.exited, "no two generations of an attempt run at once");
    Must(run->second.forgotten || Accepted({attempt, rank}) >= run->second.rows.size(),
         "a generation ends once its reports are accepted");
  }
  Must(!has_run || owner.forced || HasSavedToMove(owner, attempt),
       "a generation has saved since it was asked to, or had its time");
}

// For this resize, or for a drain before it: ranks may then end before rank 0 is told to, and their
// ends may be seen after the drain was called off.
bool Auditor::HasSavedToMove(const OwnerBook& owner, const AttemptId& attempt) const {
  if (owner.saved_seq > owner.resize_after) return true;
  const auto first = truth_->runs.find({attempt, 0});
  if (first == truth_->runs.end()) return false;
  const auto has_saved_since = [&](const std::optional<size_t>& rows) {
    return rows && owner.saved_seq > *rows;
  };
  return has_saved_since(first->second.evicted_after) ||
         has_saved_since(first->second.announced_after);
}

// A rank ended for a resize: nothing is lost by that unless it had its time.
void Auditor::CheckResizeExit(const Fence& fence, const OwnerBook& owner) const {
  Must(owner.resize_after.has_value(), "only who was asked to save ends for a resize");
  const auto it = truth_->runs.find(fence);
  // It was never started, or nobody knows of it any more.
  if (it == truth_->runs.end() || it->second.launch_failed || it->second.forgotten) return;
  const TruthRun& run = it->second;
  Must(run.exited, "a rank that was resized did exit");
  Must(owner.forced || HasSavedToMove(owner, fence.attempt),
       "only an attempt that has saved, or had its time, ends for a resize");
  Must(
      fence.rank != 0 || owner.forced || !run.evicted_after || owner.saved_seq > *run.evicted_after,
      "no work from before the request is lost");
}

void Auditor::CheckResizeOf(const OwnerBook& owner) const {
  if (owner.next_members.empty()) return;
  const bool grows = owner.next_members.size() > owner.members.size();
  const bool is_ending = !owner.exits.empty() || owner.forced;
  const Millis may_know = std::max(owner.save_by, truth_->head_awake_since);
  Must(is_ending || at_ <= may_know + kResizeSlack, "no resize waits beyond its deadline");
  if (!grows) return;
  Must(!owner.suspending || at_ <= truth_->head_awake_since + kResizeSlack || !calm_,
       "what is to end does not grow");
}

// Nothing is held where it cannot be used.
void Auditor::CheckResizes() const {
  for (const auto& [id, node] : nodes_)
    Must(node.claims.empty() || (node.ready && !node.gone && !node.draining),
         "nothing is held for a growth on a node that drains or is not there");
  for (const auto& [id, experiment] : experiments_)
    for (const TrialBook& trial : experiment.trials) CheckResizeOf(trial.runs);
}

std::vector<std::pair<TrialId, uint32_t>> Auditor::LiveTrials(const Resources& node) const {
  std::vector<std::pair<TrialId, uint32_t>> live;
  for (const auto& [id, experiment] : experiments_) {
    // The positions of data sets are followed along one trial, and not from a parent to its clone.
    if (experiment.spec.interval > 0) continue;
    for (uint32_t number = 0; number < experiment.trials.size(); ++number) {
      const OwnerBook& runs = experiment.trials[number].runs;
      if (!runs.live) continue;
      const Resources& one = runs.asks.bundles[0];
      int64_t most = INT32_MAX;
      if (one.cpu > 0) most = std::min(most, node.cpu / one.cpu);
      if (one.gpu > 0) most = std::min(most, node.gpu / one.gpu);
      if (runs.asks.strategy == "STRICT_SPREAD") most = 1;
      live.emplace_back(TrialId{id, number},
                        std::max(static_cast<uint32_t>(most), runs.asks.ranks_asked));
    }
  }
  return live;
}

}  // namespace rt::sim
