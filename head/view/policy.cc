// The training of a clone as a chain of configurations, along the checkpoints that it continued
// from: what a trial does that replays it.
#include <algorithm>

#include "common/base/limits.h"
#include "head/view/parts.h"

namespace rt {
namespace {

struct Change {
  TrialId trial;
  TrialId from;
  double iteration = 0;       // At which the parent had saved.
  const std::string* before;  // JSON: the parent's configuration then,
  const std::string* after;   // and the one from then on.
};

// The configuration that the trial had just before `until`.
const std::string& ParamsUntil(const Trial& trial, Millis until) {
  for (const TrialClone& clone : trial.clones)
    if (clone.at >= until) return clone.params_before;
  return trial.params;
}

// The oldest first.
std::vector<Change> ChangesOf(const Experiment& experiment, const Trial& trial) {
  std::vector<Change> changes;
  const Trial* at = &trial;
  Millis until = INT64_MAX;
  while (changes.size() < limits::kClonesKept) {
    const TrialClone* clone = nullptr;
    for (const TrialClone& one : at->clones)
      if (one.at < until) clone = &one;
    if (clone == nullptr) break;
    const Trial& parent = experiment.trials.at(clone->from);
    changes.push_back({at->id, parent.id, clone->iteration, &ParamsUntil(parent, clone->at),
                       &ParamsUntil(*at, until)});
    until = clone->at;
    at = &parent;
  }
  std::reverse(changes.begin(), changes.end());
  return changes;
}

}  // namespace

Json PolicyOf(const Experiment& experiment, const Trial& trial) {
  const std::vector<Change> changes = ChangesOf(experiment, trial);
  Json list = Json::MakeArray();
  for (const Change& change : changes)
    list.Append(Json::MakeObject(
        {{"time", NumberOrInt(change.iteration)}, {"config", ParsedOrNull(*change.after)}}));
  const std::string& first = changes.empty() ? trial.params : *changes.front().before;
  return Json::MakeObject({{"config", ParsedOrNull(first)}, {"changes", std::move(list)}});
}

std::string PolicyLines(const Experiment& experiment, const Trial& trial) {
  std::string lines;
  for (const Change& change : ChangesOf(experiment, trial)) {
    Json line = Json::MakeArray();
    line.Append(ToString(change.trial));
    line.Append(ToString(change.from));
    line.Append(Json());
    line.Append(NumberOrInt(change.iteration));
    line.Append(ParsedOrNull(*change.before));
    line.Append(ParsedOrNull(*change.after));
    lines += line.Dump() + '\n';
  }
  return lines;
}

}  // namespace rt
