// What was kept of attempts' working directories.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {

void Auditor::On(const event::OutputsKept& e) {
  OwnerBook& owner = OwnerOf(e.attempt.owner);
  const auto start = starts_.find(e.attempt);
  Must(start != starts_.end(), "only what was placed has outputs");
  const auto said = truth_->outputs.find(e.outputs.manifest);
  Must(said != truth_->outputs.end() && said->second.first == Fence{e.attempt, e.rank},
       "outputs are what somebody said that the rank wrote");
  const auto& members = start->second.members;
  Must(std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return member.rank == e.rank && member.node == said->second.second;
  }), "outputs come from the node that ran the rank");
  const bool has_ended =
      std::any_of(owner.exits.begin(), owner.exits.end(),
                  [&](const RankExit& exit) { return exit.rank == e.rank; });
  const RunOrder run = OrderOf(e.attempt);
  Must(!owner.live || RunOrder{owner.number, owner.generation} != run || has_ended,
       "the outputs of what runs are not kept yet");
  Must(run >= owner.outputs_of, "outputs of a later attempt are not replaced");
  if (run > owner.outputs_of) owner.outputs.clear();
  owner.outputs_of = run;
  std::string& known = owner.outputs[e.rank];
  Must(known != e.outputs.manifest, "outputs are kept once");
  known = e.outputs.manifest;
}

bool Auditor::KeepsOutputs(const Fence& fence, const std::string& manifest) const {
  const Owner& id = fence.attempt.owner;
  const OwnerBook& owner = id.is_executor() ? executors_.at(id.executor()).runs
                           : id.is_job()
                               ? jobs_.at(id.job()).runs
                               : experiments_.at(id.trial().experiment).trials.at(id.number).runs;
  const RunOrder run = OrderOf(fence.attempt);
  if (owner.outputs_of > run) return true;  // Those of a later attempt.
  const auto found = owner.outputs.find(fence.rank);
  return owner.outputs_of == run && found != owner.outputs.end() && found->second == manifest;
}

void Auditor::ExpectOutputs(const State& state) const {
  const auto check = [&](const OwnerBook& owner, const Runs& runs) {
    Must(owner.outputs.size() == runs.outputs.size(), "the outputs of every rank are kept");
    for (const RankOutputs& one : runs.outputs) {
      const auto found = owner.outputs.find(one.rank);
      const RunOrder run{one.attempt, one.resizes + 1};
      Must(run == owner.outputs_of && found != owner.outputs.end() &&
               found->second == one.kept.manifest,
           "the state has the outputs that were kept last");
    }
  };
  for (const auto& [id, job] : jobs_) check(job.runs, state.jobs.at(id).runs);
  for (const auto& [id, experiment] : experiments_) {
    for (size_t i = 0; i < experiment.trials.size(); ++i)
      check(experiment.trials[i].runs, state.experiments.at(id).trials.at(i).runs);
  }
}

}  // namespace rt::sim
