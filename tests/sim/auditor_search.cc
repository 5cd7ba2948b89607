// The auditor's part about search models, whose answers come from the compute lane.
#include <algorithm>
#include <cmath>

#include "tests/sim/auditor.h"

namespace rt::sim {

// What it created is checked as of any search.
void Auditor::CheckProposals(const event::Answered& e) const {
  const AuditedSpec& spec = experiments_.at(e.experiment).spec;
  // A spec that says no version means the newest one.
  const std::map<std::string, uint32_t> newest = {
      {"auto", 5}, {"cmaes", 2}, {"gp", 2}, {"mobster", 2}, {"tpe", 3}};
  const auto version = newest.find(spec.search);
  Must(e.algorithm == spec.search && e.version == (version == newest.end() ? 1 : version->second),
       "it is the spec's");
  Must(e.observed_through >= head_seq_, "a model answers the head that leads now");
  Must(e.stopped.empty() && e.resumed.empty() && !e.finished, "a search model only proposes");
  std::set<uint32_t> fallbacks, created;
  for (const CreatedTrial& one : e.created) created.insert(one.number);
  for (const FallbackTrial& one : e.fallbacks) {
    Must(created.contains(one.number), "a fallback is a trial of this answer");
    Must(fallbacks.insert(one.number).second && !one.reason.empty(), "a fallback has a reason");
  }
  CheckToldRungs(e);
  for (const CreatedTrial& one : e.created) {
    const auto proposed = truth_->proposed.find({e.experiment, one.number});
    Must(proposed != truth_->proposed.end() &&
             proposed->second.contains({one.params, fallbacks.contains(one.number)}),
         "a configuration is what the lane proposed for this trial, and a fallback says so");
  }
}

// What was recorded at rungs up to the record that the answer names, and nothing else, is what the
// model was told.
void Auditor::CheckToldRungs(const event::Answered& e) const {
  const ExperimentBook& experiment = experiments_.at(e.experiment);
  const auto told = truth_->told.find({e.experiment, epoch_, e.observed_through});
  if (!experiment.spec.reads_rungs() || told == truth_->told.end()) return;  // All are fallbacks.
  std::vector<std::map<double, double>> recorded(told->second.size());
  for (const auto& [seq, at] : experiment.rung_log) {
    const auto& [trial, milestone, value] = at;
    if (seq > e.observed_through) break;
    Must(trial < recorded.size(), "a model is told of every trial");
    recorded[trial][milestone] = value;
  }
  for (size_t i = 0; i < recorded.size(); ++i) {
    std::map<double, double> known = told->second[i];
    known.erase(HUGE_VAL);  // The value of a trial that was trained to its end.
    const auto is_same = [](const auto& a, const auto& b) {
      const bool are_nan = std::isnan(a.second) && std::isnan(b.second);
      return a.first == b.first && (a.second == b.second || are_nan);
    };
    Must(std::equal(known.begin(), known.end(), recorded[i].begin(), recorded[i].end(), is_same),
         "a model that reads rungs is told what was recorded there");
  }
}

void Auditor::CheckShape(const Json& space, const Json& params) const {
  Must(params.is_object(), "a configuration is a map");
  size_t wanted = 0;
  for (const auto& [name, domain] : space.object()) {
    const Json* condition = domain.Find("if");
    bool exists = true;
    if (condition != nullptr) {
      const auto& [parent, values] = condition->object().front();
      const Json* value = params.Find(parent);
      const auto& list = values.array();
      exists = value != nullptr && std::find(list.begin(), list.end(), *value) != list.end();
    }
    const Json* value = params.Find(name);
    Must((value != nullptr) == exists, "a parameter exists where its condition holds");
    wanted += exists ? 1 : 0;
    const Json* choice = domain.Find("choice");
    if (value == nullptr || choice == nullptr) continue;
    const bool is_one =
        std::any_of(choice->array().begin(), choice->array().end(), [&](const Json& each) {
          if (!each.is_object() || !value->is_object()) return each == *value;
          return each.object().size() == value->object().size() &&
                 each.object().front().first == value->object().front().first;
        });
    Must(is_one, "a choice has one of its values, with the parameters inside of it");
  }
  Must(params.object().size() == wanted, "a configuration has nothing else");
}

}  // namespace rt::sim
