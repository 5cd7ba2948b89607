#include "cli/written.h"

#include <algorithm>
#include <set>

#include "common/algorithms/known_results.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/slips.h"

namespace rt {
namespace {

struct Unknown {
  std::string name;
  std::string path;
  std::string hint;
};

bool SomeNodeHas(const Json& nodes, const std::string& name) {
  for (const Json& node : nodes.array()) {
    const Json* total = node.Find("resources_total");
    const Json* custom = total == nullptr ? nullptr : total->Find("custom");
    if (custom != nullptr && custom->GetDouble(name) > 0) return true;
  }
  return false;
}

std::string PathOf(const ExperimentFile& file, const std::string& name, size_t bundle) {
  for (const std::string& path :
       {"resources/" + name, "resources/custom/" + name,
        "resources/bundles/" + std::to_string(bundle) + "/" + name})
    if (file.document.places.contains(path)) return path;
  return "resources";
}

// Custom resources that no known node has and whose names resemble one of rt's own.
std::vector<Unknown> UnknownResources(const ExperimentFile& file, const Json& nodes) {
  std::vector<Unknown> unknown;
  const std::vector<Resources>& bundles = file.spec.resources.bundles;
  for (size_t i = 0; i < bundles.size(); ++i)
    for (const auto& [name, units] : bundles[i].custom) {
      std::string hint = ResourceHint(name);
      if (hint.empty() || (nodes.is_array() && SomeNodeHas(nodes, name))) continue;
      unknown.push_back({name, PathOf(file, name, i), std::move(hint)});
    }
  return unknown;
}

bool SomeNodeIsKnown(const Json& nodes) { return nodes.is_array() && !nodes.array().empty(); }

std::string Located(const ExperimentFile& file, const std::string& path, const std::string& text) {
  const Position place = PositionOf(file.document.At(Invalid(text), path, true));
  return place.file + ":" + std::to_string(place.line) + ": " + text;
}

// Keys of `points` that the space does not have, and results that are no points of it.
void AddSearchNotes(const ExperimentFile& file, std::vector<std::string>& notes) {
  const AlgorithmSpec& search = file.spec.search;
  const std::string path = "search/" + search.name;
  const Json *points = search.options.Find("points"), *space = file.json.Find("space");
  std::vector<std::string> known;
  if (space != nullptr && space->is_object())
    for (const auto& [key, value] : space->object()) known.push_back(key);
  std::set<std::string> unknown;
  if (points != nullptr && points->is_array())
    for (const Json& point : points->array())
      for (const auto& [key, value] : point.object())
        if (std::find(known.begin(), known.end(), key) == known.end()) unknown.insert(key);
  for (const std::string& key : unknown) {
    const std::string near = DidYouMean(key, known);
    notes.push_back(Located(file, path + "/points",
                            "points: '" + EscapeControl(key) + "' is not in the search space" +
                                (near.empty() ? "" : "; " + near)));
  }
  ExperimentSpec created = file.spec;
  EmptyUnusableResults(created);
  if (const std::string unused = UnusedResults(created); !unused.empty())
    notes.push_back(Located(file, path + "/evaluated", unused));
}

// A plateau of one value.
void AddStopNotes(const ExperimentFile& file, std::vector<std::string>& notes) {
  const PlateauRule& rule = file.spec.plateau;
  if (!rule.is_given() || rule.num_results > 1) return;
  notes.push_back(Located(
      file, "stop/plateau/num_results",
      "stop/plateau/num_results: one value has no deviation, so that every trial ends after " +
          std::to_string(std::max(1u, rule.grace_period)) + " values"));
}

}  // namespace

std::vector<std::string> NotesFor(const ExperimentFile& file, const Json& nodes) {
  std::vector<std::string> notes;
  for (const SpecNote& note : NotesOf(file.json))
    notes.push_back(Located(file, note.path, note.text));
  AddSearchNotes(file, notes);
  AddStopNotes(file, notes);
  if (SomeNodeIsKnown(nodes)) return notes;  // CheckResources refuses them.
  for (const Unknown& each : UnknownResources(file, nodes))
    notes.push_back(Located(file, each.path, "'" + each.name + "' is taken for a resource of the "
                            "cluster's own; " + each.hint));
  return notes;
}

absl::Status CheckResources(const ExperimentFile& file, const Json& nodes) {
  if (!SomeNodeIsKnown(nodes)) return absl::OkStatus();
  for (const Unknown& each : UnknownResources(file, nodes))
    return file.document.At(
        Invalid("no node has the resource '" + EscapeControl(each.name) + "'", each.hint),
        each.path, true);
  return absl::OkStatus();
}

}  // namespace rt
