// The auditor's part about checkpoints: who has their bytes, and which are kept.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {

// The store has them; or, if the experiment wants no more, the node that trains and another one.
void Auditor::CheckBytes(const event::CheckpointCommitted& e, const OwnerBook& owner) const {
  if (e.replicas.empty())
    return Must(truth_->manifests.contains(e.manifest), "the bytes were durable before");
  const std::string& where = experiments_.at({e.attempt.owner.group}).spec.durable_after;
  Must(where != "store" && owner.asks.ranks == 1,
       "only one rank's checkpoint has replicas, where that is enough");
  const NodeId trainer = owner.members.front().node;
  const std::optional<Copy> own = truth_->CopyOf(e.manifest, trainer);
  Must(e.replicas.front() == trainer && own.has_value() && own != Copy::kReleased,
       "the node that trains has the bytes, unless it has lost them since");
  for (NodeId id : e.replicas) {
    Must(Counts(id), "replicas are on ready nodes");
    const std::optional<Copy> copy = truth_->CopyOf(e.manifest, id);
    Must(copy.has_value() && copy != Copy::kReleased,
         "a node with a replica was given the bytes, and has not released them since");
  }
  const size_t count = std::set<NodeId>(e.replicas.begin(), e.replicas.end()).size();
  Must(count == e.replicas.size() && count <= (where == "local" ? 1 : 2), "each is named once");
  if (where == "local" || count == 2) return;
  const auto& all = truth_->copies.at(e.manifest);
  Must(std::any_of(all.begin(), all.end(), [&](auto& copy) { return !Counts(copy.first); }),
       "another node has them as well, unless it was lost");
}

bool Auditor::Counts(NodeId id) const {
  auto node = nodes_.find(id);
  return node != nodes_.end() && node->second.ready;  // It is neither lost nor gone.
}

// The store has it, or a node that is not lost.
bool Auditor::IsWithin(const CheckpointBook& book) const {
  return book.replicas.empty() || std::any_of(book.replicas.begin(), book.replicas.end(),
                                              [&](NodeId n) { return Counts(n); });
}

bool Auditor::CountsOn(const Owner& owner, const std::string& manifest, NodeId node) const {
  auto experiment = experiments_.find({owner.group});
  if (!owner.is_trial() || experiment == experiments_.end()) return false;
  const auto& all = experiment->second.trials.at(owner.trial().number).runs.checkpoints;
  return std::any_of(all.begin(), all.end(), [&](const CheckpointBook& book) {
    return book.manifest == manifest && !book.retired && book.replicas.contains(node);
  });
}

std::string Auditor::Awaited(const Truth& truth) const {
  std::string text;
  for (const auto& [id, experiment] : experiments_) {
    for (const TrialBook& trial : experiment.trials) {
      for (const CheckpointBook& book : trial.runs.checkpoints) {
        if (book.retired) continue;
        for (NodeId node : book.replicas) {
          if (truth.IsThere(book.manifest, node))
            text += "\n  not stored: " + book.manifest + " on node " + std::to_string(node.value);
        }
      }
    }
  }
  return text;
}

Auditor::CheckpointBook& Auditor::ReplicatedOf(const Owner& owner, uint64_t checkpoint) {
  for (CheckpointBook& book : OwnerOf(owner).checkpoints) {
    if (book.id != checkpoint || book.retired) continue;
    Must(!book.replicas.empty(), "a stored checkpoint has no replicas");
    committed_.insert(owner);
    return book;
  }
  Fail("only a kept checkpoint has replicas");
}

void Auditor::On(const event::CheckpointStored& e) {
  CheckpointBook& book = ReplicatedOf(e.owner, e.checkpoint);
  Must(truth_->manifests.contains(book.manifest), "the bytes are in the store");
  book.replicas.clear();
}

// Or was until it was given them anew, and the head has only now heard of that.
bool Auditor::IsRotten(const std::string& manifest, NodeId node) const {
  return truth_->CopyOf(manifest, node) == Copy::kRotten ||
         truth_->said_gone.contains({manifest, node});
}

void Auditor::On(const event::CheckpointReplicaLost& e) {
  CheckpointBook& book = ReplicatedOf(e.owner, e.checkpoint);
  Must(book.replicas.size() > 1 && book.replicas.erase(e.node) == 1,
       "one of several replicas is lost");
  Must(IsRotten(book.manifest, e.node), "its bytes have gone there");
}

void Auditor::On(const event::CheckpointReleased& e) {
  Must(!CountsOn(e.owner, e.manifest, e.node), "a counted replica is never released");
}

bool Auditor::IsWorse(const CheckpointBook& a, const CheckpointBook& b, const AuditedSpec& spec) {
  if (!spec.scored || a.score == b.score) return a.id < b.id;
  if (!a.score || !b.score) return !a.score;
  return spec.score_maximise ? *a.score < *b.score : *a.score > *b.score;
}

// Whether it is one of as many as the policy wants.
bool Auditor::IsBest(const CheckpointBook& book, const OwnerBook& owner, const AuditedSpec& spec) {
  const auto& all = owner.checkpoints;
  const auto better = std::count_if(all.begin(), all.end(), [&](const CheckpointBook& other) {
    return !other.retired && IsWorse(book, other, spec);
  });
  return spec.keep == 0 || better < spec.keep;
}

// What is kept whatever it is worth: the newest, the newest in the store, the first that comes
// after that one, and what an attempt goes on from of which not all ranks run yet.
std::set<uint64_t> Auditor::NeededOf(const OwnerBook& owner) {
  std::optional<uint64_t> newest, stored, next;
  for (const CheckpointBook& book : owner.checkpoints) {
    if (book.retired) continue;
    newest = book.id;
    if (book.replicas.empty()) {
      stored = book.id;
      next.reset();
    } else if (!next) {
      next = book.id;
    }
  }
  std::set<uint64_t> needed;
  if (owner.live && owner.asks.ranks > 1 && owner.started.size() < owner.asks.ranks)
    needed.insert(owner.begun_from);
  for (const auto& id : {newest, stored, next})
    if (id) needed.insert(*id);
  return needed;
}

void Auditor::On(const event::CheckpointRetired& e) {
  OwnerBook& owner = OwnerOf(e.owner);
  auto book = std::find_if(owner.checkpoints.begin(), owner.checkpoints.end(),
                           [&](const CheckpointBook& c) { return c.id == e.checkpoint; });
  Must(book != owner.checkpoints.end() && !book->retired, "a kept checkpoint is retired, once");
  const bool begins_anew = Asked("restart", ToString(e.owner.trial()));
  const bool is_newest = book + 1 == owner.checkpoints.end();
  const bool is_broken = truth_->broken.contains(book->manifest) ||
                         truth_->vanished.contains(book->manifest);
  const bool is_rotten =
      book->replicas.size() == 1 && IsRotten(book->manifest, *book->replicas.begin());
  const bool is_beyond = is_newest && !IsWithin(*book);
  if (is_beyond && !is_broken && !is_rotten && !begins_anew) abandoned_.insert(e.owner);
  if (is_broken || is_rotten || is_beyond) {
    owner.checkpoints.erase(book);
    // The newest that is kept is the one to go on from now.
    while (!owner.checkpoints.empty() && owner.checkpoints.back().retired)
      owner.checkpoints.pop_back();
    return;
  }
  const AuditedSpec& spec = ExperimentOf(e.owner.trial().experiment).spec;
  Must(!is_newest || begins_anew, "the newest checkpoint is kept");
  Must(begins_anew || !NeededOf(owner).contains(book->id), "what is needed to go on is kept");
  Must(begins_anew || !IsBest(*book, owner, spec), "the worst by the policy is retired");
  book->retired = true;
}

// Beside the best only what is needed to go on is kept.
void Auditor::CheckKept(const Owner& owner) {
  const AuditedSpec& spec = ExperimentOf(owner.trial().experiment).spec;
  const OwnerBook& runs = OwnerOf(owner);
  const std::set<uint64_t> needed = NeededOf(runs);
  for (const CheckpointBook& book : runs.checkpoints) {
    Must(book.retired || needed.contains(book.id) || IsBest(book, runs, spec),
         "no more checkpoints are kept than the policy says");
  }
}

}  // namespace rt::sim
