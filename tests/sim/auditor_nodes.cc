// The auditor's part about drains: which nodes drain, and which attempts are evicted from them.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {
namespace {

// How late an awake head may notice a deadline: ticks queue behind slow appends.
constexpr Millis kDeadlineSlack = 3'000;
// The longest that a simulated daemon announces to be away.
constexpr Millis kAwayMost = 10'000;
// A worker that is there hears of a fault so soon, also where messages are lost in between.
constexpr Millis kHeedMost = 10'000;

// Whether the gang's all-reduce goes from node to node over the link.
bool IsBetween(const std::vector<Member>& members, NodeId node, NodeId other) {
  std::vector<NodeId> ring;
  for (const Member& member : members)
    if (std::find(ring.begin(), ring.end(), member.node) == ring.end()) ring.push_back(member.node);
  const auto at = std::find(ring.begin(), ring.end(), node);
  if (at == ring.end() || ring.size() < 2) return false;
  const auto place = static_cast<size_t>(at - ring.begin());
  return other.value == 0 || ring[(place + 1) % ring.size()] == other ||
         ring[(place + ring.size() - 1) % ring.size()] == other;
}

}  // namespace

void Auditor::On(const event::NodeDraining& e) {
  NodeBook& node = NodeOf(e.node);
  Must(!node.gone, "a node that is gone does not drain");
  Must(e.by_hand ? Asked("drain", std::to_string(e.node.value)) : truth_->notices.contains(e.node),
       "a person drains a node, or its own notice");
  Must(e.by_hand || !node.by_hand, "a drain by hand takes precedence over a notice");
  Must(e.until == 0 || e.until > at_, "a deadline lies ahead");
  node.draining = true;
  node.by_hand = e.by_hand;
  node.drain_until = e.by_hand ? e.until : 0;
  for (const AttemptId& attempt : node.live) OwnerOf(attempt.owner).evicting = true;
}

void Auditor::On(const event::NodeResumed& e) {
  NodeBook& node = NodeOf(e.node);
  Must(node.draining && !node.gone, "only a draining node resumes");
  Must(!node.by_hand || Asked("undrain", std::to_string(e.node.value)),
       "what a person drained stays so until it is taken back");
  node.draining = node.by_hand = false;
  node.drain_until = 0;
}

void Auditor::On(const event::GpuCleared& e) {
  const NodeBook& node = NodeOf(e.node);
  const auto& gpus = node.inventory.gpus;
  const auto gpu = std::find_if(gpus.begin(), gpus.end(),
                                [&](const GpuInfo& one) { return one.uuid == e.uuid; });
  Must(gpu != gpus.end() && !node.gone, "only a gpu that its node lists is cleared");
  Must(gpu->quarantine != 0 && gpu->quarantine == e.quarantine,
       "the quarantine that is cleared is the one that the node has told, and no later one");
  Must(Asked("clear", std::to_string(e.node.value) + " " + std::to_string(gpu->index)),
       "a person or a probe clears a gpu");
  Must(e.probe.empty() || !gpu->by_hand, "no probe clears a gpu that only a person may");
}

void Auditor::On(const event::GpuFaultFound& e) {
  NodeBook& node = NodeOf(e.node);
  const auto& gpus = node.inventory.gpus;
  const auto gpu = std::find_if(gpus.begin(), gpus.end(),
                                [&](const GpuInfo& one) { return one.uuid == e.uuid; });
  Must(gpu != gpus.end() && !node.gone, "only a gpu that its node lists is found at fault");
  Must(gpu->quarantine == 0 && !node.faulty.contains(e.uuid),
       "what is quarantined, or is to be, is not quarantined again");
  Must(!e.what.empty() &&
           Asked("probe", std::to_string(e.node.value) + " " + std::to_string(gpu->index)),
       "a probe has found the fault");
  node.faulty[e.uuid] = at_;
}

void Auditor::On(const event::LinkFoundSlow& e) {
  const OwnerBook& owner = LiveOf(e.attempt);
  const auto run = truth_->runs.find({e.attempt, 0});
  Must(run != truth_->runs.end(), "a preflight found it");
  LinkBook& link = slow_links_[{e.node, e.other}];
  if (const double measured = run->second.bus_gbps; measured > 0) {
    Must(link.gbps < e.bus_gbps && e.bus_gbps == measured, "a gang measured more than was known");
    Must(e.bus_gbps < e.asked_gbps && e.asked_gbps == link.asked, "which is still too little");
    Must(IsBetween(owner.members, e.node, e.other) && link.found_at <= owner.begun_at,
         "a gang that was placed since then has measured it");
  } else {
    Must(run->second.slow_links.size() == 1, "a preflight found it");
    const ObservedLink& found = run->second.slow_links.front();
    NodeId node = owner.members.at(found.node).node, other = owner.members.at(found.other).node;
    if (node == other) other = {};
    else if (other < node) std::swap(node, other);
    Must(e.node == node && e.other == other && e.bus_gbps == found.bus_gbps,
         "it is between the nodes that measured");
    const double least = ExperimentOf(e.attempt.owner.trial().experiment).spec.link_gbps_least;
    Must(e.asked_gbps == least && e.bus_gbps < least, "it carries less than was asked for");
  }
  link.gbps = e.bus_gbps;
  link.asked = e.asked_gbps;
  link.at = link.found_at = at_;
}

void Auditor::On(const event::LinkCleared& e) {
  const auto link = slow_links_.find({e.node, e.other});
  Must(link != slow_links_.end(), "only a slow link is repaired");
  if (e.attempt.owner.kind == Owner::Kind::kNone) {
    Must(Asked("links", std::to_string(e.node.value)) ||
             Asked("links", std::to_string(e.other.value)),
         "a person says that a link is repaired");
  } else {
    const OwnerBook& owner = LiveOf(e.attempt);
    const auto run = truth_->runs.find({e.attempt, 0});
    Must(run != truth_->runs.end() && run->second.bus_gbps == e.bus_gbps, "a preflight was well");
    Must(e.bus_gbps >= link->second.asked, "it carries what was asked for");
    Must(IsBetween(owner.members, e.node, e.other) && link->second.found_at <= owner.begun_at,
         "a gang that was placed since the link was found has measured it");
  }
  slow_links_.erase(link);
}

void Auditor::On(const event::LinkRetried& e) {
  const auto link = slow_links_.find({e.node, e.other});
  Must(link != slow_links_.end(), "only a slow link is measured anew");
  Must(at_ >= link->second.may_be_tried_at(), "a link is given time, twice as much after each try");
  link->second.retrier = e.attempt;
  link->second.at = at_;
  ++link->second.tries;
}

// A gang on one node uses no link.
void Auditor::CheckLinks(const AttemptId& attempt, const std::set<NodeId>& nodes) const {
  if (!attempt.owner.is_trial()) return;
  const double least = experiments_.at(attempt.owner.trial().experiment).spec.link_gbps_least;
  for (const auto& [ends, link] : slow_links_) {
    const bool is_used = nodes.size() > 1 && nodes.contains(ends.first) &&
                         (ends.second.value == 0 || nodes.contains(ends.second));
    Must(!is_used || link.gbps >= least || link.retrier == attempt,
         "no gang uses a link that is too slow for it");
    Must(is_used || link.retrier != attempt, "a link is measured anew by a gang that uses it");
  }
}

std::vector<NodeId> Auditor::NodesWithSlowLinks() const {
  std::vector<NodeId> nodes;
  for (const auto& [link, gbps] : slow_links_) nodes.push_back(link.first);
  return nodes;
}

void Auditor::NoteQuarantines(NodeBook& node) {
  std::map<std::string, Millis> still;
  for (const GpuInfo& gpu : node.inventory.gpus)
    if (gpu.quarantine == 0 && node.faulty.contains(gpu.uuid))
      still[gpu.uuid] = node.faulty.at(gpu.uuid);
  node.faulty = std::move(still);
}

// A head that starts anew gives the nodes time again, before it takes one for lost. While many are
// silent it takes none for lost: one whose machine is gone stays READY for longer.
void Auditor::ExpectQuarantines() const {
  for (const auto& [id, node] : nodes_)
    for (const auto& [uuid, since] : node.faulty)
      Must(at_ - std::max(since, head_at_) < kHeedMost || !node.ready || node.gone ||
               node.away_until != 0 || truth_->emptied.contains(id),
           "what a probe found at fault is quarantined soon");
}

void Auditor::On(const event::NodeAway& e) {
  NodeBook& node = NodeOf(e.node);
  Must(node.ready && !node.gone && node.away_until == 0, "only a node that is there goes away");
  Must(!node.draining, "a node that drains is given up as any other");
  Must(truth_->aways.contains({e.node, node.inventory.incarnation}),
       "only its own daemon says that a node is away");
  Must(e.until > at_ && e.until - at_ <= kAwayMost, "it says for how long, within bounds");
  node.away_until = e.until;
}

// A rank was evicted from a draining node: rank 0 only after it had saved its work until then.
void Auditor::CheckEvicted(const Fence& fence, const OwnerBook& owner) const {
  Must(owner.evicting, "only an attempt on a draining node is evicted");
  auto it = truth_->runs.find(fence);
  // It was never started, or nobody knows of it any more.
  if (it == truth_->runs.end() || it->second.launch_failed || it->second.forgotten) return;
  const TruthRun& run = it->second;
  Must(run.exited, "an evicted rank did exit");
  Must(owner.saved_seq > 0, "only an attempt that has saved is evicted");
  Must(fence.rank != 0 || (run.evicted_after && owner.saved_seq > *run.evicted_after),
       "no work from before the announcement is lost");
}

// By the deadline of a person's drain the node is empty.
void Auditor::CheckDrains() const {
  for (const auto& [id, node] : nodes_) {
    if (node.drain_until == 0 || !node.ready) continue;
    const Millis may_know = std::max(node.drain_until, truth_->head_awake_since);
    Must(at_ <= may_know + kDeadlineSlack || node.live.empty(),
         "nothing is left on a drained node after the deadline");
  }
}

std::vector<NodeId> Auditor::DrainedNodes() const {
  std::vector<NodeId> drained;
  for (const auto& [id, node] : nodes_)
    if (node.by_hand && !node.gone) drained.push_back(id);
  return drained;
}

}  // namespace rt::sim
