// The auditor's part about search models, whose answers come from the compute lane.
#include "tests/sim/auditor.h"

namespace rt::sim {

// What it created is checked as of any search.
void Auditor::CheckProposals(const event::Answered& e) const {
  const AuditedSpec& spec = experiments_.at(e.experiment).spec;
  Must(e.algorithm == spec.search && e.version == 1, "it is the spec's");
  Must(e.observed_through >= head_seq_, "a model answers the head that leads now");
  Must(e.stopped.empty() && e.resumed.empty() && !e.finished, "a search model only proposes");
  std::set<uint32_t> fallbacks, created;
  for (const CreatedTrial& one : e.created) created.insert(one.number);
  for (const FallbackTrial& one : e.fallbacks) {
    Must(created.contains(one.number), "a fallback is a trial of this answer");
    Must(fallbacks.insert(one.number).second && !one.reason.empty(), "a fallback has a reason");
  }
  for (const CreatedTrial& one : e.created) {
    const auto proposed = truth_->proposed.find({e.experiment, one.number});
    Must(proposed != truth_->proposed.end() &&
             proposed->second.contains({one.params, fallbacks.contains(one.number)}),
         "a configuration is what the lane proposed for this trial, and a fallback says so");
  }
}

}  // namespace rt::sim
