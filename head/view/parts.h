// Pieces that the read models share.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "common/base/json.h"
#include "common/base/limits.h"
#include "head/core/core.h"
#include "head/core/profiles.h"
#include "head/view/view.h"

namespace rt {

inline Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }
inline Json TimeOrNull(Millis at) { return at == 0 ? Json() : Json(FormatTime(at)); }
inline Json ParsedOrNull(const std::string& text) {
  auto json = Json::Parse(text);
  return json.ok() ? *std::move(json) : Json();
}
// 3.0 -> 3: counters that are whole almost always.
inline Json NumberOrInt(double value) {
  bool whole = value == std::floor(value) && std::abs(value) < 9e15;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}
inline Json TextsJson(const std::vector<std::string>& texts) {
  Json list = Json::MakeArray();
  for (const std::string& text : texts) list.Append(text);
  return list;
}
inline Json Listing(Json items) {
  return Json::MakeObject({{"schema", 1}, {"items", std::move(items)}, {"next", Json()}});
}
// The newest predictions of an experiment's search model; null: it has made none. belief.cc.
Json BeliefOf(const Core& core, ExperimentId id);
// The rungs of a scheduler with their trials, and the population of a scheduler that clones.
// `pauses`: the scheduler pauses trials. rungs.cc.
Json RungsOf(const Experiment& experiment, Mode mode, bool pauses);
Json PopulationOf(const Experiment& experiment);
// What a trial that replays a clone does: {"config", "changes": [{"time", "config"}]}, the
// configuration to begin with, and the later ones with the iterations from which they were in
// force. policy.cc.
Json PolicyOf(const Experiment& experiment, const Trial& trial);
// What the plateau rule of an experiment compares now, in words; null: it has none. plateau.cc.
Json PlateauOf(const Experiment& experiment, const ExperimentPlateauRule& rule);
// Of a page of a list: half a message, since what is counted of a trial is a guess.
inline constexpr size_t kPageBytesMax = 2u << 20;
// What it takes as text, without its numbers' digits: view_pages.cc.
size_t TextBytesOf(const Json& json);
// A page of `items`, a map by id: at least one item, if there is one from `span.from` on.
template <class Map, class Make>
Json PageOf(const Map& items, const ListSpan& span, Make&& make) {
  const size_t most =
      span.limit == 0 ? limits::kListItemsMax : std::min(span.limit, limits::kListItemsMax);
  Json list = Json::MakeArray(), next;
  size_t bytes = 0;
  for (auto at = items.lower_bound({span.from}); at != items.end(); ++at) {
    const size_t count = list.array().size();
    Json item = count < most ? make(at->second) : Json();
    bytes += TextBytesOf(item);
    if (count == most || (count > 0 && bytes > kPageBytesMax)) {
      next = Json(at->first.value);
      break;
    }
    list.Append(std::move(item));
  }
  return Json::MakeObject({{"schema", 1}, {"items", std::move(list)}, {"next", std::move(next)}});
}
template <class Map, class Make>
Json ListOf(const Map& items, Make&& make) {
  Json list = Json::MakeArray();
  for (const auto& [id, item] : items) list.Append(make(item));
  return Listing(std::move(list));
}
// view_warnings.cc
std::vector<std::string> WarningsOf(const World& world, const Experiment& experiment);
// elastic.cc. What the policy answered last about the live owner; null: nothing since the head
// started.
const ElasticShare* FindShare(const Core& core, const Owner& owner);
// "the policy 'costate' gives it 2, …"
std::string ShareText(const ElasticShare& share);
// Null where the owner does not run or has a fixed size.
Json ElasticOf(const Core& core, const Owner& owner);
// The ranks of its trials together after each change, of which the newest are listed.
Json AllocationOf(const Experiment& experiment);
Json AttemptsOf(const Core& core, const Owner& owner, const Runs& runs);
// What the newest attempt that kept something wrote; null when there is none.
Json OutputsOf(const Runs& runs);
// Whether a worker still compares or pushes what the owner wrote.
bool AwaitsOutputs(const Core& core, const Owner& owner, const Runs& runs);
// How many attempts' outputs are on their way; null: not known yet.
Json OutputsPending(const Core& core);
// What its losses cost: gpus, times the seconds from the newest checkpoint before each.
inline double LostGpuSeconds(const ResourceRequest& request, const Trial& trial) {
  int64_t units = 0;
  for (const Resources& bundle : request.bundles) units += bundle.gpu;
  return ToSeconds(trial.runs.lost_for) * static_cast<double>(units) / static_cast<double>(kUnit);
}

// Machines that have not joined yet, as nodes in the state REQUESTED. One whose name a present node
// has is left out: that node is another one, which joined without having been asked for.
std::vector<const Machine*> RequestedMachines(const State& state);
// What the provider last said of the pool, when that was no success; empty otherwise.
std::string TroubleOf(const State& state, const std::string& pool, Millis now);

}  // namespace rt
