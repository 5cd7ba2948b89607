// The auditor's part about checkpoints: who has their bytes, and which are kept.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {

// The store has them; or, if the experiment wants no more, the node that trains and another one.
void Auditor::CheckBytes(const event::CheckpointCommitted& e, const OwnerBook& owner) const {
  if (e.held_by.empty())
    return Must(truth_->manifests.contains(e.manifest), "the bytes were durable before");
  const std::string& where = experiments_.at({e.attempt.owner.group}).spec.durable_after;
  Must(where != "store" && owner.asks.ranks == 1,
       "only one rank's checkpoint is held, where that is enough");
  const NodeId trainer = owner.members.front().node;
  const std::optional<Copy> own = truth_->CopyOf(e.manifest, trainer);
  Must(e.held_by.front() == trainer && own.has_value() && own != Copy::kLetGo,
       "the node that trains has the bytes, unless it has lost them since");
  for (NodeId id : e.held_by) {
    Must(Counts(id), "only who is ready is counted on");
    const std::optional<Copy> copy = truth_->CopyOf(e.manifest, id);
    Must(copy.has_value() && copy != Copy::kLetGo,
         "who is counted on was given the bytes, and has not let go of them since");
  }
  const size_t count = std::set<NodeId>(e.held_by.begin(), e.held_by.end()).size();
  Must(count == e.held_by.size() && count <= (where == "local" ? 1 : 2), "each is named once");
  if (where == "local" || count == 2) return;
  const auto& all = truth_->held.at(e.manifest);
  Must(std::any_of(all.begin(), all.end(), [&](auto& copy) { return !Counts(copy.first); }),
       "another node has them as well, unless it was lost");
}

bool Auditor::Counts(NodeId id) const {
  auto node = nodes_.find(id);
  return node != nodes_.end() && node->second.ready;  // It is neither lost nor gone.
}

// The store has it, or a node that is not lost.
bool Auditor::IsWithin(const CheckpointBook& book) const {
  return book.held_by.empty() ||
         std::any_of(book.held_by.begin(), book.held_by.end(), [&](NodeId n) { return Counts(n); });
}

bool Auditor::CountsOn(const Owner& owner, const std::string& manifest, NodeId node) const {
  auto experiment = experiments_.find({owner.group});
  if (!owner.is_trial() || experiment == experiments_.end()) return false;
  const auto& all = experiment->second.trials.at(owner.trial().number).runs.checkpoints;
  return std::any_of(all.begin(), all.end(), [&](const CheckpointBook& book) {
    return book.manifest == manifest && !book.retired && book.held_by.contains(node);
  });
}

std::string Auditor::Awaited(const Truth& truth) const {
  std::string text;
  for (const auto& [id, experiment] : experiments_) {
    for (const TrialBook& trial : experiment.trials) {
      for (const CheckpointBook& book : trial.runs.checkpoints) {
        if (book.retired) continue;
        for (NodeId node : book.held_by) {
          if (truth.IsThere(book.manifest, node))
            text += "\n  not stored: " + book.manifest + " on node " + std::to_string(node.value);
        }
      }
    }
  }
  return text;
}

Auditor::CheckpointBook& Auditor::HeldOf(const Owner& owner, uint64_t checkpoint) {
  for (CheckpointBook& book : OwnerOf(owner).checkpoints) {
    if (book.id != checkpoint || book.retired) continue;
    Must(!book.held_by.empty(), "what the store has is held by nobody");
    committed_.insert(owner);
    return book;
  }
  Fail("only a kept checkpoint is held");
}

void Auditor::On(const event::CheckpointStored& e) {
  CheckpointBook& book = HeldOf(e.owner, e.checkpoint);
  Must(truth_->manifests.contains(book.manifest), "the bytes are in the store");
  book.held_by.clear();
}

// Or was until it was given them anew, and the head has only now heard of that.
bool Auditor::IsRotten(const std::string& manifest, NodeId node) const {
  return truth_->CopyOf(manifest, node) == Copy::kRotten ||
         truth_->said_gone.contains({manifest, node});
}

void Auditor::On(const event::CheckpointUnheld& e) {
  CheckpointBook& book = HeldOf(e.owner, e.checkpoint);
  Must(book.held_by.size() > 1 && book.held_by.erase(e.node) == 1, "one of several let go of it");
  Must(IsRotten(book.manifest, e.node), "its bytes have gone there");
}

void Auditor::On(const event::CheckpointReleased& e) {
  Must(!CountsOn(e.owner, e.manifest, e.node), "who is counted on is never told to let go");
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
    if (book.held_by.empty()) {
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
      book->held_by.size() == 1 && IsRotten(book->manifest, *book->held_by.begin());
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
